// Package telemetry exports spans and metrics by OpenTelemetry's protocol over HTTP.
//
// It is set by the standard OTEL_ variables, which Read checks. Without an endpoint there is
// no tracer, and nothing is allocated for tracing.
//
// The exporter is this package's own, over the protocol's messages: the one of OpenTelemetry
// links gRPC and adds 3.3 MB to the program, this one 1.3 MB with metrics and the SDK
// (stripped, measured with Go 1.26). It stands behind the SDK's interface of span processors.
// Spans wait in a bounded queue; beyond it they are dropped and counted, so that an
// unreachable collector never delays a delivery.
package telemetry
