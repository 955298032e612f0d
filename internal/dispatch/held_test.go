package dispatch

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/trace"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/store"
)

// lateness records the lateness observations of a Dispatcher.
type lateness struct {
	nop
	mu   sync.Mutex
	list []string
}

// Lateness implements Observer.
func (l *lateness) Lateness(_ string, _ notice.Source, held notice.Held, late time.Duration, _ trace.SpanContext) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = append(l.list, fmt.Sprintf("%s %s", held, late.Round(time.Second)))
}

// all returns the observations so far.
func (l *lateness) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.list)
}

// An exchange after several postponements is observed once, counted from the due time, and labelled
// with the cause that delayed it the longest.
func TestLatenessIsObservedOncePerExchange(t *testing.T) {
	busy, breaker, rate, queue := notice.ReasonBusy, notice.ReasonBreaker, notice.ReasonRate, notice.ReasonQueue
	type wait struct {
		reason notice.Reason
		after  time.Duration
	}
	const long, short = 30 * time.Second, 2 * time.Second
	for name, c := range map[string]struct {
		waits []wait
		want  string
	}{
		"none":               {nil, "none 0s"},
		"busy":               {[]wait{{busy, short}, {busy, short}, {busy, short}}, "busy 6s"},
		"rate":               {[]wait{{rate, short}}, "rate 2s"},
		"redis":              {[]wait{{queue, short}}, "redis 2s"},
		"breaker, then busy": {[]wait{{breaker, long}, {breaker, long}, {busy, short}}, "breaker 1m2s"},
		"busy, then breaker": {[]wait{{busy, short}, {breaker, long}, {breaker, long}}, "breaker 1m2s"},
		"busy and breaker":   {[]wait{{breaker, short}, {busy, long}, {breaker, short}, {busy, short}}, "busy 36s"},
		"many of one and others": {[]wait{{busy, 20 * time.Second}, {breaker, 8 * time.Second}, {breaker, 8 * time.Second},
			{breaker, 8 * time.Second}}, "breaker 44s"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newFakeStore()
				var calls atomic.Int64
				w := newWork(func(context.Context, *notice.Notice) notice.Result {
					if n := calls.Add(1); int(n) <= len(c.waits) {
						return notice.DeferredResult(c.waits[n-1].reason, c.waits[n-1].after, "")
					}
					return notice.DeliveredResult(200)
				})
				s.put("a", 0, 1)
				s.entries[0].n.Due, s.entries[0].at = time.Now(), time.Now()
				o, late := options(s, w, 10, testRoute("a", 4)), lateness{}
				o.Observer = &late
				d := begin(o)
				until := time.Now().Add(10 * time.Minute)
				for int(calls.Load()) <= len(c.waits) && time.Now().Before(until) {
					d.SweepDue(keys.Partition{Prefix: "a"})
					after(10 * time.Millisecond)
				}
				if !slices.Equal(late.all(), []string{c.want}) {
					t.Errorf("observed %q, want %q once", late.all(), c.want)
				}
				var ended []store.Settlement
				s.do(func() { ended = slices.Clone(s.ended) })
				for _, e := range ended[:len(c.waits)] {
					if e.Ending != store.EndPostponed {
						t.Errorf("the settlement %s %+v moves the due time", e.Ending, e.Held)
					}
				}
				drain(t, d)
			})
		})
	}
}

// An exchange that this service cuts short is observed, and so is the next one; both count from the
// due time.
func TestLatenessOfAnExchangeCutShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, late := newFakeStore(), lateness{}
		s.put("a", 0, 1)
		s.entries[0].n.Due = time.Now()
		w := newWork(func(ctx context.Context, _ *notice.Notice) notice.Result {
			<-ctx.Done()
			return notice.RetryResult(notice.ReasonTimeout, "")
		})
		o := options(s, w, 10, testRoute("a", 4))
		o.Observer = &late
		d := begin(o)
		d.SweepDue(keys.Partition{Prefix: "a"})
		after(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		d.Drain(ctx, time.Second)
		if !slices.Equal(late.all(), []string{"none 0s"}) || s.ended[0].Ending != store.EndPostponed {
			t.Errorf("observed %q, settled %s; want it observed once and postponed", late.all(), s.ended[0].Ending)
		}
	})
}

// A notice that falls due during a pause of its route is labelled with the pause, also if the
// instance started during the pause. A later notice is not.
func TestPauseIsTheCauseOfLateness(t *testing.T) {
	for _, started := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s, late := newFakeStore(), lateness{}
			o := options(s, taking(time.Millisecond), 10, testRoute("a", 4))
			o.Observer = &late
			d := New(o)
			if !started {
				d.SetPaused(none)
				after(time.Second)
			}
			d.SetPaused(func(keys.Partition) bool { return true })
			s.put("a", 0, 1)
			s.entries[0].n.Due, s.entries[0].at = time.Now(), time.Now()
			after(time.Minute)
			d.SetPaused(none)
			after(time.Second)
			s.put("a", 0, 1)
			s.entries[0].n.Due, s.entries[0].at = time.Now(), time.Now()
			d.SweepDue(keys.Partition{Prefix: "a"})
			after(time.Second)
			if !slices.Equal(late.all(), []string{"paused 1m0s", "none 0s"}) {
				t.Errorf("started during the pause %v: observed %q", started, late.all())
			}
			drain(t, d)
		})
	}
}

// Notices that fall due while claims fail are labelled with redis.
func TestFailedClaimsAreTheCauseOfLateness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, late := newFakeStore(), lateness{}
		o := options(s, taking(time.Millisecond), 10, testRoute("a", 4))
		o.Observer = &late
		s.claim = errDown
		d := begin(o)
		s.put("a", 0, 1)
		s.entries[0].n.Due, s.entries[0].at = time.Now(), time.Now()
		d.SweepDue(keys.Partition{Prefix: "a"})
		after(10 * time.Second)
		s.do(func() { s.claim = nil })
		after(time.Second)
		if !slices.Equal(late.all(), []string{"redis 10s"}) {
			t.Errorf("observed %q", late.all())
		}
		drain(t, d)
	})
}
