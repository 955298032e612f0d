// Package telemetry exports spans and metrics by OpenTelemetry's protocol over HTTP.
//
// It is configured by the standard OTEL_ variables, which Read checks. Without an endpoint there is
// no tracer, and nothing is allocated for tracing.
//
// The exporter is part of this package and uses the protocol's messages directly. OpenTelemetry's
// own exporter links gRPC and adds 3.3 MB to the program. This exporter adds 1.3 MB, metrics and
// the SDK included (stripped, measured with Go 1.26). It implements the SDK's interface of span
// processors. Spans wait in a bounded queue. When the queue is full, spans are dropped and counted,
// so that an unreachable collector never delays a delivery.
package telemetry
