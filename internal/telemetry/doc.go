// Package telemetry exports spans and metrics to an OpenTelemetry collector, by OTLP over HTTP. The standard OTEL_
// variables configure it; [Read] checks them. If they name neither an endpoint nor an exporter, there is no tracer and
// no span.
//
// Spans wait in a bounded queue. When the queue is full, spans are dropped and counted, so that an unreachable
// collector never delays a delivery.
//
// OpenTelemetry's own exporter is not used, because it links gRPC and adds 3.3 MB to the program. This package adds
// 1.3 MB.
package telemetry
