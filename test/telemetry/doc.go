// Package telemetry checks the exported traces and metrics with the receiver of the
// OpenTelemetry Collector, and records the trace in docs/records/trace.json. It is a separate
// module, because the collector has many dependencies.
package telemetry
