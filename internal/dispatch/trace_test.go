package dispatch

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"
	logged "go.uber.org/zap/zaptest/observer"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/store"
	"notifier/internal/tracing"
)

const (
	sampledParent   = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	unsampledParent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"
)

// spans runs the attempts of one notice, and returns the spans and the contexts that the
// handler got.
func spans(t *testing.T, n notice.Notice, change func(*Options, *fakeStore), answers ...notice.Result) (
	list []sdk.ReadOnlySpan, got []trace.SpanContext) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		recorder := tracetest.NewSpanRecorder()
		provider := sdk.NewTracerProvider(sdk.WithSpanProcessor(recorder))
		s := newFakeStore()
		s.put("a", 0, 1)
		e := s.entries[0]
		n.Key, n.Route, n.Due = e.n.Key, e.n.Route, time.Now().Add(-time.Second)
		*e.n = n
		w := newWork(func(ctx context.Context, _ *notice.Notice) notice.Result {
			got = append(got, trace.SpanContextFromContext(ctx))
			time.Sleep(3 * time.Millisecond) // sleep: the duration of the exchange, in virtual time
			return answers[min(len(got), len(answers))-1]
		})
		r := testRoute("a", 1)
		r.Target.Kind = route.KindFixed
		o := options(s, w, 10, r)
		o.Tracer = provider.Tracer("notifier")
		if change != nil {
			change(&o, s)
		}
		d := begin(o)
		for range len(answers) * 20 {
			d.SweepDue(keys.Partition{Prefix: "a"})
			after(time.Minute)
		}
		drain(t, d)
		list = recorder.Ended()
	})
	return list, got
}

func attributesOf(s sdk.ReadOnlySpan) map[attribute.Key]attribute.Value {
	m := map[attribute.Key]attribute.Value{}
	for _, a := range s.Attributes() {
		m[a.Key] = a.Value
	}
	return m
}

// Both attempts are children of the stored context. The handler gets the context of the
// attempt's span, with the stored tracestate.
func TestAttemptIsChildOfStoredContext(t *testing.T) {
	n := notice.Notice{Content: notice.Content{Traceparent: sampledParent, Tracestate: "shop=1"}}
	failed := notice.RetryResult(notice.ReasonStatus, "oops")
	failed.Status, failed.Host = 500, "shop.example:8443"
	ok := notice.DeliveredResult(200)
	list, got := spans(t, n, nil, failed, ok)
	if len(list) != 2 || len(got) != 2 {
		t.Fatalf("%d spans, %d attempts; want 2", len(list), len(got))
	}
	parent := tracing.Parse(sampledParent, "")
	for i, s := range list {
		if s.Parent().SpanID() != parent.SpanID() || s.SpanContext().TraceID() != parent.TraceID() {
			t.Errorf("attempt %d: parent %v", i+1, s.Parent())
		}
		if !got[i].Equal(s.SpanContext()) || got[i].TraceState().String() != "shop=1" {
			t.Errorf("attempt %d: the handler got %v", i+1, got[i])
		}
		a := attributesOf(s)
		if s.Name() != "send a" || s.SpanKind() != trace.SpanKindClient || a[tracing.Attempt].AsInt64() != int64(i+1) ||
			a[tracing.Route].AsString() != "a" || a[tracing.Key].AsString() == "" || a[tracing.Message].AsString() == "" {
			t.Errorf("attempt %d: %s %v %v", i+1, s.Name(), s.SpanKind(), a)
		}
	}
	first, second := attributesOf(list[0]), attributesOf(list[1])
	if list[0].Status().Code != codes.Error || first[tracing.Outcome].AsString() != "retry" || first[tracing.Status].AsInt64() != 500 ||
		first[tracing.ErrorType].AsString() != "500" || first[tracing.ServerAddress].AsString() != "shop.example" ||
		first[tracing.ServerPort].AsInt64() != 8443 || first[tracing.Lateness].AsFloat64() != 1000 {
		t.Errorf("attempt 1: %v %v", list[0].Status(), first)
	}
	if list[1].Status().Code != codes.Unset || second[tracing.Outcome].AsString() != "delivered" || second[tracing.Resends].AsInt64() != 1 {
		t.Errorf("attempt 2: %v %v", list[1].Status(), second)
	}
}

func TestAttemptWithoutStoredContextIsRoot(t *testing.T) {
	list, _ := spans(t, notice.Notice{}, nil, notice.DeliveredResult(200))
	if len(list) != 1 || list[0].Parent().IsValid() || len(list[0].Links()) != 0 {
		t.Fatalf("%v; want one root", list)
	}
}

func TestReplayAndResendAreRootsWithLink(t *testing.T) {
	stored := tracing.Parse(sampledParent, "").TraceID()
	for want, n := range map[attribute.KeyValue]notice.Notice{
		tracing.Replay.String("r1"): {Replay: "r1"}, tracing.Resend.Int(2): {Resend: 2, Endings: 2},
	} {
		n.Traceparent = sampledParent
		core, logs := logged.New(zap.InfoLevel)
		list, _ := spans(t, n, func(o *Options, _ *fakeStore) { o.Logger = zap.New(core) }, notice.DeliveredResult(200))
		if len(list) != 1 || list[0].Parent().IsValid() || len(list[0].Links()) != 1 || list[0].Links()[0].SpanContext.TraceID() != stored {
			t.Fatalf("%s: %v; want one root with a link", want.Key, list)
		}
		if got := attributesOf(list[0])[want.Key]; got != want.Value {
			t.Errorf("%s is %v", want.Key, got)
		}
		lines := logs.FilterMessage("attempt").All()
		if len(lines) != 1 || lines[0].ContextMap()["trace_id"] != list[0].SpanContext().TraceID().String() {
			t.Errorf("%s: the log has %v, want the trace id of the span", want.Key, lines)
		}
	}
}

// The sampled flag of the stored context decides, and the handler then gets no context: the
// receiver gets the stored one.
func TestUnsampledContextHasNoSpan(t *testing.T) {
	n := notice.Notice{Content: notice.Content{Traceparent: unsampledParent}}
	list, got := spans(t, n, nil, notice.DeliveredResult(200))
	if len(list) != 0 || len(got) != 1 || got[0].IsValid() {
		t.Errorf("%d spans, contexts %v", len(list), got)
	}
}

// A deferral without an exchange has no span.
func TestDeferralHasNoSpan(t *testing.T) {
	list, got := spans(t, notice.Notice{}, nil, notice.DeferredResult(notice.ReasonBreaker, time.Minute, ""), notice.DeliveredResult(200))
	if len(list) != 1 || len(got) != 2 || attributesOf(list[0])[tracing.Outcome].AsString() != "delivered" {
		t.Errorf("%d spans of %d tries", len(list), len(got))
	}
}

// The settle makes the push, so that a refused push is a failed attempt.
func TestPushSpanEndsWithSettle(t *testing.T) {
	push := notice.DeliveredResult(0)
	push.Push = &notice.Push{Key: "q", Entry: []string{"x"}}
	list, _ := spans(t, notice.Notice{}, func(_ *Options, s *fakeStore) { s.refuse = "WRONGTYPE" }, push)
	if len(list) == 0 || attributesOf(list[0])[tracing.Outcome].AsString() != "retry" ||
		attributesOf(list[0])[tracing.Reason].AsString() != string(notice.ReasonQueue) {
		t.Fatalf("%v", list)
	}
	list, _ = spans(t, notice.Notice{}, nil, push)
	if len(list) != 1 || attributesOf(list[0])[tracing.Outcome].AsString() != "delivered" {
		t.Fatalf("%v", list)
	}
}

// Without a tracer, an attempt allocates nothing for tracing.
func TestUntracedAttemptAllocatesNothing(t *testing.T) {
	r := testRoute("a", 1)
	n := &notice.Notice{Key: "a:m:t:1", Content: notice.Content{Traceparent: sampledParent}}
	e := finished{Settlement: store.Settlement{Claim: store.Claim{Notice: n}}}
	ctx := t.Context()
	if got := testing.AllocsPerRun(1000, func() {
		under, span := startSpan(ctx, nil, r, n)
		e.span = span
		if e.spanContext().IsValid() || trace.SpanContextFromContext(under).IsValid() {
			panic("a span without a tracer")
		}
		e.endSpan(r)
	}); got != 0 {
		t.Errorf("%v allocations", got)
	}
}
