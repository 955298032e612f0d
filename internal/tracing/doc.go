// Package tracing parses and formats W3C trace contexts (the header traceparent), and defines the attributes of spans.
// Package telemetry creates the tracer and exports its spans.
//
// Packages that create spans take a trace.Tracer in their options. A nil tracer means that tracing is off and no span is
// created.
package tracing
