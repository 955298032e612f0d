package engine

import (
	"testing"
	"time"

	"go.uber.org/zap"
	logged "go.uber.org/zap/zaptest/observer"

	"notifier/internal/notice"
	"notifier/internal/redistest"
	"notifier/internal/store"
)

// A dead letter stood in the log as one of many attempts: nobody who looks at
// warnings saw it. One line tells of both.
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
	w := start(t, redistest.Shared(t), s, func(o *Options) { o.Logger = zap.New(core) }, testRoute("r", "app1"))
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
