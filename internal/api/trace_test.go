package api_test

import (
	"strings"
	"testing"

	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"notifier/internal/api"
	"notifier/internal/tracing"
)

const (
	producerTrace  = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	unsampledTrace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
)

// Without a tracer the notice keeps the producer's headers if they are valid. A repeated call
// with other headers is the same call.
func TestTraceContextIsKept(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	long := "a=" + strings.Repeat("x", 255)
	for name, c := range map[string]struct{ parent, state, wantParent, wantState string }{
		"both":       {producerTrace, "a=1,b=2", producerTrace, "a=1,b=2"},
		"none":       {"", "", "", ""},
		"nonsense":   {"nonsense", "a=1", "", ""},
		"state":      {"", "a=1", "", ""},
		"long state": {producerTrace, long, producerTrace, ""},
		"unsampled":  {unsampledTrace, "", unsampledTrace, ""},
	} {
		key := "app2:a:b:" + strings.ReplaceAll(name, " ", "-")
		b.do("POST", "/v1/notices", `{"key":"`+key+`","delay":60}`, "traceparent", c.parent, "tracestate", c.state).is(201)
		b.do("POST", "/v1/notices", `{"key":"`+key+`","delay":60}`, "traceparent", "00-1af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01").is(200)
		batch := key + "-batch"
		b.do("POST", "/v1/notices/batch", `{"key":"`+batch+`"}`, "traceparent", c.parent, "tracestate", c.state).is(201)
		for _, key := range []string{key, batch} {
			if f, _ := b.engine.Find(t.Context(), key); f.Traceparent != c.wantParent || f.Tracestate != c.wantState {
				t.Errorf("%s: stored %q and %q", key, f.Traceparent, f.Tracestate)
			}
		}
	}
}

// traced is an API whose spans the recorder gets.
func traced(t *testing.T, sampler sdk.Sampler) (*bench, *tracetest.SpanRecorder) {
	recorder := tracetest.NewSpanRecorder()
	tracer := sdk.NewTracerProvider(sdk.WithSpanProcessor(recorder), sdk.WithSampler(sampler)).Tracer("notifier")
	return newBench(t, func(o *api.Options) { o.Tracer = tracer }), recorder
}

// The notice is stored with the context of the schedule call's span, which is a child of the
// producer's.
func TestScheduleCallIsTraced(t *testing.T) {
	t.Parallel()
	b, recorder := traced(t, sdk.ParentBased(sdk.AlwaysSample()))
	b.do("POST", "/v1/notices", `{"key":"app2:a:b:1","delay":60}`, "traceparent", producerTrace, "tracestate", "a=1", "baggage", "user=secret").is(201)
	b.do("POST", "/v1/notices/batch", `[{"key":"app2:a:b:2","delay":60},{"key":"app2:a:b:3","delay":60}]`).is(201)
	b.do("GET", "/v1/notices/app2:a:b:1", "").is(200)
	b.do("POST", "/v1/notices", `{"key":"nothing"}`).is(422)
	list := recorder.Ended()
	if len(list) != 3 {
		t.Fatalf("%d spans; want those of three schedule calls", len(list))
	}
	single, batch, refused := list[0], list[1], list[2]
	if single.Name() != "POST /v1/notices" || single.SpanKind() != trace.SpanKindServer || !single.Parent().IsRemote() ||
		single.Parent().SpanID() != tracing.Parse(producerTrace, "").SpanID() || single.SpanContext().TraceState().String() != "a=1" {
		t.Errorf("%s %v, parent %v", single.Name(), single.SpanKind(), single.Parent())
	}
	got := map[string]string{}
	for _, a := range single.Attributes() {
		got[string(a.Key)] = a.Value.String()
	}
	f, err := b.engine.Find(t.Context(), "app2:a:b:1")
	if err != nil || f.Traceparent != tracing.Traceparent(single.SpanContext()) || f.Tracestate != "a=1" {
		t.Errorf("stored %q and %q, %v", f.Traceparent, f.Tracestate, err)
	}
	for name, want := range map[string]string{"http.request.method": "POST", "http.route": "/v1/notices", "http.response.status_code": "201",
		"notifier.key": "app2:a:b:1", "notifier.route": "other", "messaging.message.id": f.ID()} {
		if got[name] != want {
			t.Errorf("%s is %q, want %q", name, got[name], want)
		}
	}
	for _, a := range single.Attributes() {
		if strings.Contains(a.Value.String(), "secret") {
			t.Errorf("%s has the baggage", a.Key)
		}
	}
	for _, key := range []string{"app2:a:b:2", "app2:a:b:3"} {
		if f, _ := b.engine.Find(t.Context(), key); f.Traceparent != tracing.Traceparent(batch.SpanContext()) {
			t.Errorf("%s: stored %q", key, f.Traceparent)
		}
	}
	if batch.Parent().IsValid() || refused.Status().Code == codes.Error {
		t.Errorf("parent %v, refused %v", batch.Parent(), refused.Status())
	}
}

// A call that is not sampled leaves the producer's context, and nothing where there is none.
func TestUnsampledCallKeepsProducersContext(t *testing.T) {
	t.Parallel()
	b, recorder := traced(t, sdk.ParentBased(sdk.NeverSample()))
	b.do("POST", "/v1/notices", `{"key":"app2:a:b:1"}`).is(201)
	b.do("POST", "/v1/notices", `{"key":"app2:a:b:2"}`, "traceparent", unsampledTrace).is(201)
	for key, want := range map[string]string{"app2:a:b:1": "", "app2:a:b:2": unsampledTrace} {
		if f, _ := b.engine.Find(t.Context(), key); f.Traceparent != want {
			t.Errorf("%s: stored %q, want %q", key, f.Traceparent, want)
		}
	}
	if n := len(recorder.Ended()); n != 0 {
		t.Errorf("%d spans", n)
	}
}
