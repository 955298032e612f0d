// Package tracing reads and writes W3C trace contexts, and names the attributes of spans.
//
// It needs only OpenTelemetry's API. Packages that make spans take a trace.Tracer in their
// options. A nil tracer means that tracing is off: no span is made, and nothing is
// allocated. Package telemetry makes the tracer and exports its spans.
package tracing
