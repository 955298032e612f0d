package telemetry

import (
	"encoding/json"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"

	"notifier/internal/fleet"
	"notifier/internal/notice"
)

func TestWorkAddsUpOverInstances(t *testing.T) {
	a, b := NewMetrics(MetricsOptions{Routes: routesNamed("orders")}), NewMetrics(MetricsOptions{Routes: routesNamed("orders")})
	for i := range 1000 {
		a.Lateness("orders", notice.SourceEvent, notice.HeldNone, time.Duration(i)*10*time.Microsecond, trace.SpanContext{}) // up to 10 ms
		b.Lateness("orders", notice.SourceEvent, notice.HeldNone, 20*time.Millisecond, trace.SpanContext{})
		a.Attempt("orders", notice.OutcomeDelivered, "")
	}
	b.Attempt("orders", notice.OutcomeRetry, notice.ReasonTimeout)
	var received fleet.Work // by another instance
	text, err := json.Marshal(b.Work("orders"))
	if err != nil || json.Unmarshal(text, &received) != nil {
		t.Fatal(err)
	}
	sum := a.Work("orders")
	sum.Add(received)
	if sum.Attempts() != 1001 || sum.Late.Count() != 2000 {
		t.Errorf("%+v", sum)
	}
	within := func(q float64, want time.Duration) {
		t.Helper()
		if got := sum.Late.Quantile(q); got < want*81/100 || got > want*119/100 {
			t.Errorf("the quantile %v is %s, want %s within 19 %%", q, got, want)
		}
	}
	within(0.25, 5*time.Millisecond)
	within(0.99, 20*time.Millisecond)
	if fleet.Spread(nil).Quantile(0.5) != 0 {
		t.Error("a stats.Spread without durations has a median")
	}
}

func TestWorkSinceSubtractsEarlierWork(t *testing.T) {
	m := NewMetrics(MetricsOptions{Routes: routesNamed("orders")})
	m.Attempt("orders", notice.OutcomeDelivered, "")
	m.Lateness("orders", notice.SourceSweep, notice.HeldNone, time.Second, trace.SpanContext{})
	before := m.Work("orders")
	if !m.Work("orders").Since(before).None() {
		t.Error("work without time")
	}
	m.Attempt("orders", notice.OutcomeDead, notice.ReasonGone)
	m.Lateness("orders", notice.SourceSweep, notice.HeldNone, time.Second, trace.SpanContext{})
	w := m.Work("orders").Since(before)
	if w.Outcomes[notice.OutcomeDead] != 1 || w.Outcomes[notice.OutcomeDelivered] != 0 || w.Late.Count() != 1 {
		t.Errorf("%+v", w)
	}
}

// Another version may send any number.
func TestSpreadIgnoresInvalidBuckets(t *testing.T) {
	s := fleet.Spread{}
	s.Add(fleet.Spread{-1: 5, 1 << 40: 5, 3: -7, 4: 2})
	if s.Count() != 2 {
		t.Errorf("%v", s)
	}
	if from, to := s.Bounds(1 << 40); from != 0 || to != 0 {
		t.Errorf("%s to %s", from, to)
	}
}
