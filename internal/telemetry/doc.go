// Package telemetry reports the work of the service to monitoring systems. It counts attempts, claims and the like for
// Prometheus, and exports spans and the same metrics to an OpenTelemetry collector.
//
// # Metrics
//
// A nil *[Metrics] counts nothing, so callers need no check. Its methods are safe for concurrent use.
//
// Each label has few values, to bound the number of series. Most unexpected values are counted as "other". The
// label "route" has the name of a route. No label is empty, except the label "client" of some calls.
//
// Most series that alerts use exist from the start with the value 0. Otherwise Prometheus's functions rate and increase
// would not count the step to the first value. Many other series appear with their first value.
//
// Some gauges, such as the numbers of notices by state, are read from Redis during each scrape; see [Metrics.Observe].
// While Redis is unavailable, these gauges are missing.
//
// # Export
//
// [Telemetry] exports by OTLP over HTTP. The standard OTEL_ variables configure it; config.OTel has their values. If they
// name neither an endpoint nor an exporter, there is no tracer and no span.
//
// Spans wait in a bounded queue. When the queue is full, spans are dropped and counted, so that an unreachable
// collector never delays a delivery.
//
// OpenTelemetry's own exporter is not used, because it links gRPC and adds 3.3 MB to the program. This package adds
// 1.3 MB.
package telemetry
