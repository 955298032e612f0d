package engine

import (
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"notifier/internal/tracing"
)

// spans are those of an engine.
type spans struct{ *tracetest.SpanRecorder }

func newSpans() spans { return spans{tracetest.NewSpanRecorder()} }

func (s spans) tracer() trace.Tracer {
	return sdk.NewTracerProvider(sdk.WithSpanProcessor(s)).Tracer("t")
}

// sum adds up an attribute of all spans of a name.
func (s spans) sum(name string) (n int64) {
	for _, span := range s.Ended() {
		for _, a := range span.Attributes() {
			if span.Name() == name && (a.Key == tracing.Notices || a.Key == tracing.DBBatch) {
				n += a.Value.AsInt64()
			}
		}
	}
	return n
}
