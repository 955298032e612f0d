package dispatch

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/route"
)

// busyHost is a handler that limits the calls to one host.
type busyHost struct {
	mu    sync.Mutex
	slots int
	took  time.Duration
	now   int
	calls int
	last  time.Time
	began func(n *notice.Notice) // under mu
}

func (b *busyHost) Handle(_ context.Context, _ *route.Route, n *notice.Notice) notice.Result {
	b.mu.Lock()
	if b.now >= b.slots {
		b.mu.Unlock()
		r := notice.DeferredResult(notice.ReasonBusy, 250*time.Millisecond, "")
		r.Host = "h:80"
		return r
	}
	b.now++
	b.calls++
	if b.began != nil {
		b.began(n)
	}
	b.mu.Unlock()
	time.Sleep(b.took)
	b.mu.Lock()
	b.now--
	b.last = time.Now()
	b.mu.Unlock()
	return notice.Result{Outcome: notice.OutcomeDelivered, Status: 200, Host: "h:80"}
}

func (b *busyHost) Host(*route.Route, *notice.Notice) string { return "h:80" }

func (b *busyHost) Room(*route.Route, string) (int, time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.slots - b.now, time.Second / time.Duration(b.slots)
}

// A slot that is freed is taken by the next waiting notice: 95 % of the capacity of a host is
// used, and each notice is claimed at most 1.5 times more than needed (usually once).
func TestFreedSlotIsTakenByTheNextWaitingNotice(t *testing.T) {
	for _, c := range []struct{ slots, notices int }{{16, 1600}, {1, 40}} {
		synctest.Test(t, func(t *testing.T) {
			s, b := newFakeStore(), &busyHost{slots: c.slots, took: 200 * time.Millisecond}
			s.put("a", 0, c.notices)
			from := time.Now()
			d := begin(options(s, b, 512, testRoute("a", 64)))
			for until := from.Add(time.Minute); time.Now().Before(until); {
				d.Sweep(keys.Partition{Prefix: "a"})
				after(50 * time.Millisecond)
			}
			least := time.Duration(c.notices/c.slots) * b.took
			won := 0
			for _, n := range s.won {
				won += n
			}
			if b.calls != c.notices || b.last.Sub(from) > least*100/95 {
				t.Errorf("%d slots: %d of %d handled in %s, want all within %s", c.slots, b.calls, c.notices, b.last.Sub(from), least*100/95)
			}
			if extra := float64(won-c.notices) / float64(c.notices); extra > 1.5 {
				t.Errorf("%d slots: %.2f extra claims a notice", c.slots, extra)
			}
			t.Logf("%d slots: %s of at least %s, %d claims won of %d notices", c.slots, b.last.Sub(from), least, won, c.notices)
			quiet(t, d)
			drain(t, d)
		})
	}
}

// First attempts wait for a host for which a storm of retries comes. A slot that is freed is left to them: a retry that arrives
// while they are being claimed does not take it.
func TestSlotOfAHostIsLeftToAWaitingFirstAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const takes, firsts = 20 * time.Millisecond, 50
		s := newFakeStore()
		due := map[string]time.Time{}
		var worst time.Duration
		b := &busyHost{slots: 4, took: takes}
		b.began = func(n *notice.Notice) {
			if at, first := due[n.Key]; first {
				worst = max(worst, time.Since(at))
				delete(due, n.Key)
			}
		}
		d := begin(options(&distant{s, 2 * time.Millisecond}, b, 512, testRoute("a", 64)))
		come := func(attempts int) {
			s.do(func() { s.attempts = attempts })
			key := fmt.Sprintf("a:m:t:%d", s.made)
			s.put("a", 0, 1)
			if attempts == 0 {
				b.mu.Lock()
				due[key] = time.Now()
				b.mu.Unlock()
			}
			d.Expired(d.queues["a"].r, key)
		}
		for range firsts {
			come(0)
			for range 20 {
				come(1)
				after(500 * time.Microsecond)
			}
		}
		after(2 * takes)
		b.mu.Lock()
		if len(due) > 0 || worst > 2*takes {
			t.Errorf("%d first attempts still wait, the last of the others began %s late, want within %s", len(due), worst, 2*takes)
		}
		if retries := b.calls - firsts; retries < 50 { // there is room for two calls in 10 ms, of which one is a first attempt
			t.Errorf("%d retries began meanwhile", retries)
		}
		b.mu.Unlock()
		for begun := 0; begun < s.made; {
			d.SweepDue(keys.Partition{Prefix: "a"})
			after(10 * takes)
			b.mu.Lock()
			begun = b.calls
			b.mu.Unlock()
		}
		quiet(t, d)
		drain(t, d)
	})
}

// yields reads the number of hosts without the mutex, also while a queue closes.
func TestDropIsSafeForReadersOfTheNumber(t *testing.T) {
	w := newWaiting()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 1000 {
			if w.n.Load() != 0 {
				t.Error("hosts wait")
			}
		}
	}()
	for range 100 {
		w.drop()
	}
	<-done
}
