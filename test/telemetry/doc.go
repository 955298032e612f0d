// Package telemetry checks the traces and metrics that the service exports, with the receiver of the OpenTelemetry
// Collector. It records one trace in docs/records/trace.json.
//
// The package is a separate module, because the collector has many dependencies.
package telemetry
