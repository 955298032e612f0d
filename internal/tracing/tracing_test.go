package tracing

import (
	"context"
	"errors"
	"testing"

	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

func TestParseReadsWhatTraceparentWrites(t *testing.T) {
	for _, header := range []string{"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
		"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"} {
		c := Parse(header, "a=1,b=2")
		if !c.IsRemote() || Traceparent(c) != header || c.TraceState().String() != "a=1,b=2" {
			t.Errorf("%s is read as %s, %q", header, Traceparent(c), c.TraceState())
		}
	}
	// Unknown flags of a later version are kept out; its sampled flag counts.
	if c := Parse("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-03", ""); !c.IsSampled() {
		t.Error("flags 03 are not sampled")
	}
	if c := Parse("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "no members"); !c.IsValid() || c.TraceState().Len() != 0 {
		t.Errorf("an invalid tracestate makes %v", c)
	}
	for _, bad := range []string{"", "00-x", "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
		"00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01"} {
		if Parse(bad, "a=1").IsValid() {
			t.Errorf("%q is valid", bad)
		}
	}
}

func TestStepMarksFailure(t *testing.T) {
	recorder := tracetest.NewSpanRecorder()
	tracer := sdk.NewTracerProvider(sdk.WithSpanProcessor(recorder)).Tracer("t")
	_, span := Step(t.Context(), tracer, "write", DBBatch.Int(7))
	End(span, errors.New("secret text"), "database")
	got := recorder.Ended()
	if len(got) != 1 || got[0].Status().Code != codes.Error || got[0].Status().Description != "" || len(got[0].Events()) != 0 {
		t.Fatalf("%v", got)
	}
	for _, a := range got[0].Attributes() {
		if a.Key == ErrorType && a.Value.AsString() != "database" || a.Key == DBBatch && a.Value.AsInt64() != 7 {
			t.Errorf("%v", a)
		}
	}
}

// Without a tracer, a step allocates nothing and leaves the context unchanged.
func TestUntracedStepAllocatesNothing(t *testing.T) {
	ctx := t.Context()
	if n := testing.AllocsPerRun(100, func() {
		under, span := Step(ctx, nil, "write")
		if under != ctx {
			panic("another context")
		}
		End(span, context.Canceled, "database")
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
