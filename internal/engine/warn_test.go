package engine

import (
	"testing"
	"time"

	"go.uber.org/zap"
	logged "go.uber.org/zap/zaptest/observer"

	"notifier/internal/notice"
	"notifier/internal/store"
	"notifier/internal/testkit"
)

// The log reported a dead letter like any attempt, so it was missing among the warnings. One line
// now reports both.
func TestADeadLetterIsAWarning(t *testing.T) {
	t.Parallel()
	core, logs := logged.New(zap.InfoLevel)
	s := newSink(10)
	s.answer = func(n *notice.Notice) notice.Result {
		if n.Key == key(1) {
			return notice.DeliveredResult(200)
		}
		return notice.RetryResult(notice.ReasonTimeout, "no")
	}
	w := start(t, testkit.SharedRedis(t), s, func(o *Options) { o.Logger = zap.New(core) }, testRoute("r", "app1"))
	for i := range 2 {
		if _, err := w.Schedule(t.Context(), store.Request{Key: key(i), Delay: time.Millisecond}); err != nil {
			t.Fatal(err)
		}
	}
	w.until(t, key(0), notice.Dead)
	w.until(t, key(1), notice.Delivered)
	eventually(t, "four attempts in the log", func() bool { return logs.FilterMessage("attempt").Len() == 4 })
	for _, l := range logs.FilterMessage("attempt").All() {
		dead := l.ContextMap()["outcome"] == "dead"
		if dead != (l.Level == zap.WarnLevel) || !dead && l.Level != zap.InfoLevel {
			t.Errorf("at %s: %v", l.Level, l.ContextMap())
		}
	}
}

// The fields name the notice, its receiver, its trace and its promise. With "failed" only
// the attempts that failed are logged.
func TestAttemptLines(t *testing.T) {
	t.Parallel()
	failed, err := notice.ParseLogAttempts("failed")
	if err != nil {
		t.Fatal(err)
	}
	core, logs := logged.New(zap.InfoLevel)
	s := newSink(10)
	s.answer = func(n *notice.Notice) notice.Result {
		if n.AttemptsMade > 0 {
			return notice.DeliveredResult(200)
		}
		r := notice.RetryResult(notice.ReasonTimeout, "no")
		r.Host = "shop.example:443"
		return r
	}
	w := start(t, testkit.SharedRedis(t), s, func(o *Options) { o.Logger, o.LogAttempts = zap.New(core), failed }, testRoute("r", "app1"))
	trace := "4bf92f3577b34da6a3ce929d0e0e4736"
	content := notice.Content{Traceparent: "00-" + trace + "-00f067aa0ba902b7-01"}
	made, err := w.Schedule(t.Context(), store.Request{Key: key(0), Delay: 5 * time.Millisecond, Content: content})
	if err != nil {
		t.Fatal(err)
	}
	f := w.until(t, key(0), notice.Delivered)

	lines := logs.FilterMessage("attempt").All()
	if len(lines) != 1 {
		t.Fatalf("%d lines, want that of the first attempt: %v", len(lines), lines)
	}
	line := lines[0].ContextMap()
	for name, want := range map[string]any{"key": key(0), "webhook_id": f.ID(), "host": "shop.example:443", "trace_id": trace,
		"due": notice.Stamp(made.Due), "outcome": "retry", "attempt": int64(1), "reason": "timeout"} {
		if line[name] != want {
			t.Errorf("%s is %v, want %v", name, line[name], want)
		}
	}
	if late, ok := line["lateness_ms"].(float64); !ok || late < 0 || late > 5000 {
		t.Errorf("lateness_ms is %v", line["lateness_ms"])
	}
}
