package engine

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"notifier/internal/dispatch"
	"notifier/internal/fleet"
	"notifier/internal/notice"
	"notifier/internal/store"
	"notifier/internal/testkit"
)

// testLog collects the keys of delivered lines, or refuses lines with err.
type testLog struct {
	mu   sync.Mutex
	keys []string
	err  error
}

func (l *testLog) Deliver(_ context.Context, _ time.Duration, _ string, fields ...zap.Field) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.keys = append(l.keys, fields[0].String)
	}
	return l.err
}

func (l *testLog) set(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err = err
}

func (l *testLog) Problem() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		return ""
	}
	return "the log is not written: " + l.err.Error()
}

func TestLogHandlerDefersNoticeWhoseLineIsNotWritten(t *testing.T) {
	t.Parallel()
	out := &testLog{}
	h := logHandler{out}
	n := &notice.Notice{Key: "app1:m:t:1", Content: notice.Content{Body: []byte("{}")}, Due: time.Now()}
	r := testRoute("r", "app1")
	if got := h.Handle(t.Context(), r, n); got.Outcome != notice.OutcomeDelivered || !slices.Equal(out.keys, []string{n.Key}) {
		t.Errorf("%+v, written %q", got, out.keys)
	}

	out.err = errors.New("no space left")
	got := h.Handle(t.Context(), r, n)
	if got.Outcome != notice.OutcomeDeferred || got.Reason != notice.ReasonLocal || got.Shortage != notice.ShortLog ||
		got.After != time.Second {
		t.Errorf("%+v, want a deferral by 1s", got)
	}
	if d := dispatch.Decide(r, n, got); d.Counting != dispatch.CountNothing {
		t.Errorf("the deferral counts as an attempt: %+v", d)
	}

	stopped, stop := context.WithCancelCause(t.Context())
	stop(dispatch.ErrShutdown)
	if got := h.Handle(stopped, r, n); got.Outcome != notice.OutcomeDeferred || got.Reason != notice.ReasonShutdown || got.After != 0 {
		t.Errorf("at a shutdown: %+v", got)
	}
}

// While lines cannot be written, a notice waits without attempts, and the instance is ready and degraded.
func TestNoticesOfLogTargetWaitForTheLog(t *testing.T) {
	t.Parallel()
	out := &testLog{err: errors.New("its reader has stopped reading")}
	w := start(t, testkit.SharedRedis(t), nil, func(o *Options) {
		o.Log, o.Handler = out, Handlers(o.Conn, o.Space, nil, nil, out)
	}, testRoute("r", "app1"))
	if _, err := w.Schedule(t.Context(), store.Request{Key: key(1)}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "deferred", func() bool { return w.dispatch.Waiting("app1").By[notice.HeldLocal] == 1 })
	if r := w.Ready(t.Context()); !r.Ready || !slices.ContainsFunc(r.Degraded, func(c fleet.Condition) bool {
		return strings.Contains(c.Reason, "the log is not written: its reader")
	}) {
		t.Errorf("%+v", r)
	}
	if f, err := w.Find(t.Context(), key(1)); err != nil || f.AttemptsMade != 0 || f.State != notice.Scheduled {
		t.Errorf("%s after %d attempts, %v", f.State, f.AttemptsMade, err)
	}

	out.set(nil)
	f := w.until(t, key(1), notice.Delivered)
	if f.AttemptsMade != 1 || !slices.Equal(out.keys, []string{key(1)}) {
		t.Errorf("%d attempts, lines %q", f.AttemptsMade, out.keys)
	}
	if r := w.Ready(t.Context()); len(r.Degraded) > 0 {
		t.Errorf("afterwards: %+v", r)
	}
}
