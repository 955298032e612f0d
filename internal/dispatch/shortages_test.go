package dispatch

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/receivers"
	"notifier/internal/store"
)

// A notice that a shortage of this machine defers for hours uses no attempt, is tried again after 1 to 30 s, and is delivered
// after the shortage. The log has one line a minute.
func TestShortageDefersWithoutAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, late := newFakeStore(), lateness{}
		var over atomic.Bool
		w := newWork(func(context.Context, *notice.Notice) notice.Result {
			if over.Load() {
				return notice.DeliveredResult(200)
			}
			return notice.LocalResult(notice.ShortPorts, "no port")
		})
		s.put("a", 0, 1)
		n := s.entries[0].n
		n.Due, s.entries[0].at = time.Now(), time.Now()
		o := options(s, w, 10, testRoute("a", 4))
		core, lines := observer.New(zap.InfoLevel)
		o.Observer, o.Logger, o.Health = &late, zap.New(core), receivers.NewTracker()
		d := begin(o)
		begun, p := time.Now(), keys.Partition{Prefix: "a"}
		pass := func(until time.Duration) {
			for time.Since(begun) < until {
				d.SweepDue(p)
				after(100 * time.Millisecond)
			}
		}
		pass(2 * time.Hour)
		got := d.Shortages()
		if len(got) != 1 || got[0].Cause != notice.ShortPorts || got[0].Since.Sub(begun) > time.Second || got[0].Detail != "no port" ||
			got[0].Remedy == "" {
			t.Errorf("%+v", got)
		}
		if m := lines.FilterMessage("this machine lacks a resource, deferring notices").All(); len(m) < 80 || len(m) > 120 ||
			m[0].Level != zap.ErrorLevel || m[0].ContextMap()["cause"] != "ports" {
			t.Errorf("%d lines, the first: %+v", len(m), m[:min(1, len(m))])
		}
		var steps []time.Duration
		s.do(func() {
			for _, e := range s.ended {
				if e.Ending != store.EndPostponed || e.Held != notice.HeldLocal {
					t.Errorf("%s %s", e.Ending, e.Held)
				}
				steps = append(steps, e.After)
			}
		})
		if len(steps) > 400 || slices.Min(steps) < 750*time.Millisecond || slices.Max(steps) > mostLocal || steps[0] > time.Second ||
			steps[len(steps)-1] < 22*time.Second {
			t.Errorf("%d deferrals from %s to %s", len(steps), slices.Min(steps), slices.Max(steps))
		}
		over.Store(true)
		pass(2*time.Hour + 31*time.Second)
		if seen := late.all(); len(seen) != 1 || !strings.HasPrefix(seen[0], "local 2h0m") || n.AttemptsMade != 1 {
			t.Errorf("observed %q, %d attempts", seen, n.AttemptsMade)
		}
		if o.Health.Failing() {
			t.Error("the receiver is shown as failing")
		}
		after(shortageEnds)
		if left := d.Shortages(); len(left) > 0 {
			t.Errorf("%+v after the end", left)
		}
		quiet(t, d)
		drain(t, d)
	})
}
