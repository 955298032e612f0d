// Package tracing parses and formats W3C trace contexts, and defines the attributes of spans. Package telemetry
// creates the tracer and exports its spans.
//
// Packages that create spans take a trace.Tracer in their options. A nil tracer means that tracing is off: no span is
// created and nothing is allocated.
package tracing
