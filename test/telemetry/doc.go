// Package telemetry checks the traces and metrics that the service exports, with the receiver of the OpenTelemetry
// Collector. It compares one trace with docs/records/trace.json; with RECORD=1 it writes that file.
//
// The package is a separate module, because the collector has many dependencies.
package telemetry
