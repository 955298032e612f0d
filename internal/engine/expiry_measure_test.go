//go:build measure

package engine

import (
	"fmt"
	"io"
	"slices"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"notifier/internal/notice"
	"notifier/internal/store"
	"notifier/internal/testkit"
)

// TestMeasureExpiry measures how long after their expiry notices of a paused route are dead, 1,000 a second, in whole
// milliseconds of Redis's clock; and how fast a backlog of EXPIRY_BACKLOG expired notices ends beside a drain of as many due
// ones, in turn.
//
//	go test -tags measure ./internal/engine -run TestMeasureExpiry -v -timeout 20m
func TestMeasureExpiry(t *testing.T) {
	const rate, window = 1000, 20 * time.Second
	srv, g := testkit.StartRedis(t), newSink(1)
	w := start(t, srv, g, discard, testRoute("r", "app1"))
	w.pauseRoute(t, "app1")
	n := int(window.Seconds() * rate)
	begin := time.Now().Add(5 * time.Second).Truncate(time.Millisecond)
	expires := func(i int) time.Time { return begin.Add(time.Duration(i) * time.Second / rate) }
	w.put(t, n, func(i int) store.Request {
		return store.Request{Key: fmt.Sprintf("app1:a:b:%d", i), Due: begin.Add(-time.Second), Content: notice.Content{Expires: expires(i)}}
	})
	for w.counts(t, "app1").Dead < int64(n) {
		time.Sleep(100 * time.Millisecond) // sleep: a poll that leaves the processors to the engine
	}

	var late []time.Duration
	for i := range n {
		f, err := w.Find(t.Context(), fmt.Sprintf("app1:a:b:%d", i))
		if err != nil {
			t.Fatal(err)
		}

		late = append(late, f.SettledAt.Sub(expires(i)))
	}

	slices.Sort(late)
	t.Logf("dead after the expiry: median %s, p99 %s, most %s", late[n/2], late[n*99/100], late[n-1])
	w.stop()

	many := number(t, "EXPIRY_BACKLOG", 40_000)
	for turn := range 3 {
		for _, expired := range []bool{true, false} {
			t.Logf("expired %v: %.0f a second", expired, backlogRate(t, many, turn, expired))
		}
	}
}

// discard writes the log as the service does, to nowhere.
func discard(o *Options) {
	o.Logger = zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), zapcore.AddSync(io.Discard), zap.InfoLevel))
}

// backlogRate stores many notices while no instance is alive, and returns how many a second end once one is.
func backlogRate(t *testing.T, many, turn int, expired bool) float64 {
	t.Helper()
	srv := testkit.StartRedis(t)
	w := start(t, srv, newSink(many), discard, testRoute("r", "app1"))
	w.pauseRoute(t, "app1")
	due := time.Now().Add(time.Duration(many/10) * time.Millisecond).Truncate(time.Millisecond)
	w.put(t, many, func(i int) store.Request {
		r := store.Request{Key: fmt.Sprintf("app1:a:b:%d-%d", turn, i), Due: due}
		if expired {
			r.Expires = due.Add(100 * time.Millisecond)
		}
		return r
	})
	w.stop()
	time.Sleep(time.Until(due) + 2*time.Second) // sleep: nobody is alive when they are due and expire; then Redis has deleted the timers
	begin := time.Now()
	w = start(t, srv, newSink(many), discard, testRoute("r", "app1"))
	if err := w.Resume(t.Context(), "app1"); err != nil {
		t.Fatal(err)
	}

	eventually(t, "the backlog ends", func() bool { return w.counts(t, "app1").Pending == 0 })
	return float64(many) / time.Since(begin).Seconds()
}

// counts returns the counts of a route.
func (w *world) counts(t *testing.T, prefix string) store.Counts {
	t.Helper()
	c, _, err := w.store.Counts(t.Context(), []string{prefix})
	if err != nil {
		t.Fatal(err)
	}
	return c[0]
}
