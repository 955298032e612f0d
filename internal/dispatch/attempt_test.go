package dispatch

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/store"
)

func TestFailedSettlesAreRetriedAndClaimsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, w := newFakeStore(), taking(10*time.Millisecond)
		s.put("a", 0, 20)
		d := begin(options(s, w, 1000, testRoute("a", 32), testRoute("b", 32)))
		synctest.Wait()
		s.do(func() { s.settle = errDown })
		after(10 * time.Second)
		s.put("a", 0, 180) // within the number of slots
		begun, claims := w.count(), len(s.calls)
		for range 100 {
			d.Sweep(keys.Partition{Prefix: "a"})
			after(100 * time.Millisecond)
		}
		if w.count() != begun || len(s.calls) != claims {
			t.Errorf("while settles fail %d handlers began, %d claims were made", w.count()-begun, len(s.calls)-claims)
		}
		if s.settles > 200 {
			t.Errorf("%d settle calls in 20 s", s.settles)
		}
		s.do(func() { s.settle = nil })
		after(time.Minute)
		if w.calls != 200 || s.endings()[store.EndDelivered] != 200 {
			t.Errorf("%d handled, %v", w.calls, s.endings())
		}
		quiet(t, d)
		drain(t, d)
	})
}

// observed records the attempts of a Dispatcher and the number of unsettled ones.
type observed struct {
	nop
	outcomes  map[notice.Outcome]int
	unsettled int
}

func (o *observed) Attempt(_ string, out notice.Outcome, _ notice.Reason) { o.outcomes[out]++ }
func (o *observed) Unsettled(string, int)                                 { o.unsettled++ }

// An unconfirmed settle is written again, which confirms it or writes it to the new master after a
// failover. The retries are bounded: the replica may never come back.
func TestUnconfirmedSettleIsRetried(t *testing.T) {
	for _, c := range []struct{ short, calls int }{{0, 1}, {1, 2}, {settleTries - 1, settleTries}, {1000, settleTries}} {
		synctest.Test(t, func(t *testing.T) {
			s, w := newFakeStore(), taking(10*time.Millisecond)
			s.put("a", 0, 1)
			s.short = c.short
			o := options(s, w, 10, testRoute("a", 1))
			seen := observed{outcomes: map[notice.Outcome]int{}}
			o.Observer = &seen
			core, lines := observer.New(zap.InfoLevel)
			o.Logger = zap.New(core)
			d := begin(o)
			after(time.Minute)
			// The second settle finds the write of the first one, which does not make it stale.
			for _, line := range lines.FilterMessage("attempt").All() {
				if line.ContextMap()["stale"] != nil {
					t.Errorf("%d not confirmed: the log calls the attempt stale", c.short)
				}
			}
			if s.settles != c.calls || w.calls != 1 || seen.outcomes[notice.OutcomeDelivered] != 1 || len(seen.outcomes) != 1 ||
				seen.unsettled != 0 {
				t.Errorf("%d not confirmed: %d settles, %d handled, %v, %d reported as unsettled", c.short, s.settles, w.calls, seen.outcomes,
					seen.unsettled)
			}
			quiet(t, d)
			drain(t, d)
		})
	}
}

func TestPanicIsAnAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeStore()
		w := newWork(func(_ context.Context, n *notice.Notice) notice.Result {
			if n.NextAttempt() == 1 {
				panic("oh")
			}
			return notice.DeliveredResult(200)
		})
		s.put("a", 0, 1)
		n := s.entries[0].n
		d := begin(options(s, w, 100, testRoute("a", 4)))
		after(16 * time.Second)
		d.Sweep(keys.Partition{Prefix: "a"})
		after(time.Second)
		if n.AttemptsMade != 2 || n.Attempts[0].Reason != notice.ReasonPanic || s.endings()[store.EndDelivered] != 1 {
			t.Errorf("%+v, %v", n, s.endings())
		}
		quiet(t, d)
		drain(t, d)
	})
}

// A deferred attempt frees its slot before its settle, so the route continues with other notices.
func TestDeferredAttemptFreesItsSlotEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeStore()
		w := newWork(func(context.Context, *notice.Notice) notice.Result {
			return notice.DeferredResult(notice.ReasonBusy, time.Hour, "busy")
		})
		s.put("a", 0, 300)
		r := testRoute("a", 1)
		d := begin(options(s, w, 1, r))
		after(time.Second)
		if w.calls != 300 || w.top != 1 || s.endings()[store.EndPostponed] != 300 {
			t.Errorf("%d calls, %d at once, %v", w.calls, w.top, s.endings())
		}
		quiet(t, d)
		drain(t, d)
	})
}

func TestDeferralWithoutDelayDoesNotLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeStore()
		w := newWork(func(context.Context, *notice.Notice) notice.Result {
			return notice.DeferredResult(notice.ReasonBusy, 0, "")
		})
		s.put("a", 0, 1)
		d := begin(options(s, w, 10, testRoute("a", 4)))
		for range 1000 {
			d.Sweep(keys.Partition{Prefix: "a"})
			after(time.Millisecond)
		}
		if w.calls > 101 {
			t.Errorf("%d attempts in a second", w.calls)
		}
		drain(t, d)
	})
}

// A list that rejects its entry fails that attempt; the others of the batch are settled.
func TestRefusedPushIsAFailedAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeStore()
		s.refuse = "WRONGTYPE"
		w := newWork(func(_ context.Context, n *notice.Notice) notice.Result {
			res := notice.DeliveredResult(0)
			if strings.HasSuffix(n.Key, ":0") {
				res.Push = &notice.Push{Key: "l", Entry: []string{"x"}}
			}
			return res
		})
		s.put("a", 0, 3)
		n := s.entries[0].n
		d := begin(options(s, w, 10, testRoute("a", 4)))
		after(time.Second)
		if got := s.endings(); got[store.EndDelivered] != 2 || got[store.EndRetry] != 1 {
			t.Errorf("%v", got)
		}
		if n.AttemptsMade != 1 || len(n.Attempts) != 1 || n.AwaitsReport || n.Attempts[0].Reason != notice.ReasonQueue ||
			n.Attempts[0].Response != "WRONGTYPE" {
			t.Errorf("%+v", n)
		}
		quiet(t, d)
		drain(t, d)
	})
}

// A push that Redis rejects because it accepts no writes at all, as during a failover, uses no
// attempt. The notice is postponed and pushed again later.
func TestPushWhileRedisTakesNoWritesUsesNoAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeStore()
		s.refuse, s.unavailable = "READONLY You can't write against a read only replica.", true
		var calls []time.Time
		w := newWork(func(context.Context, *notice.Notice) notice.Result {
			calls = append(calls, time.Now())
			res := notice.DeliveredResult(0)
			res.Push = &notice.Push{Key: "l", Entry: []string{"x"}}
			return res
		})
		s.put("a", 0, 1)
		n := s.entries[0].n
		d := begin(options(s, w, 10, testRoute("a", 4)))
		for range 20 {
			after(250 * time.Millisecond)
			d.Sweep(keys.Partition{Prefix: "a"})
		}
		synctest.Wait() // for the attempt that the last sweep has found
		if n.AttemptsMade != 0 || len(n.Attempts) != 0 || n.AwaitsReport || len(calls) < 10 {
			t.Errorf("after 5 s without writes, %d pushes: %+v", len(calls), n)
		}
		s.mu.Lock()
		s.refuse = ""
		s.mu.Unlock()
		for back := time.Now(); s.endings()[store.EndDelivered] == 0; d.Sweep(keys.Partition{Prefix: "a"}) {
			after(time.Millisecond)
			if time.Since(back) > 2*unavailableFor {
				t.Fatalf("not delivered %s after Redis took writes again", 2*unavailableFor)
			}
		}
		if n.AttemptsMade != 1 {
			t.Errorf("%d attempts", n.AttemptsMade)
		}
		drain(t, d)
	})
}

func TestExpiredLeasesAreInterruptedAttempts(t *testing.T) {
	for _, c := range []struct {
		name   string
		ladder notice.Ladder
		lapses int
		calls  int
		ending store.Ending
		used   int
	}{
		{"one lapse", notice.Ladder{time.Second, time.Second}, 1, 1, store.EndDelivered, 2},
		{"no ladder, Redis was slow once", notice.Ladder{}, 1, 1, store.EndDelivered, 2},
		{"no ladder, granted for the last time", notice.Ladder{}, extraInterrupted, 1, store.EndDelivered, extraInterrupted + 1},
		{"no ladder, one too many", notice.Ladder{}, extraInterrupted + 1, 0, store.EndDead, extraInterrupted + 2},
		{"ladder used up", notice.Ladder{time.Second}, extraInterrupted + 2, 0, store.EndDead, extraInterrupted + 3},
		{"very many", notice.Ladder{time.Second}, 499, 0, store.EndDead, 500},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, w := newFakeStore(), taking(0)
				s.put("a", 0, 1)
				s.entries[0].lapses = c.lapses
				n := s.entries[0].n
				r := testRoute("a", 4)
				r.Ladder = c.ladder
				d := begin(options(s, w, 10, r))
				after(time.Second)
				if w.calls != c.calls || s.endings()[c.ending] != 1 || n.AttemptsMade != c.used || len(n.Attempts) > notice.KeptAttempts {
					t.Errorf("%d calls, %v, used %d", w.calls, s.endings(), n.AttemptsMade)
				}
				if n.Attempts[0].Reason != notice.ReasonInterrupted {
					t.Errorf("attempts: %+v", n.Attempts)
				}
				if c.ending == store.EndDead && n.Reason != notice.ReasonExhausted {
					t.Errorf("reason %s", n.Reason)
				}
				drain(t, d)
			})
		})
	}
}

func TestMissingReportIsAFailedAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, w := newFakeStore(), taking(0)
		s.put("a", 0, 1)
		e := s.entries[0]
		e.n.AwaitsReport, e.lapses = true, 1
		e.n.Add(notice.Attempt{Number: 1})
		d := begin(options(s, w, 10, testRoute("a", 4)))
		after(time.Second)
		if w.calls != 0 || e.n.AttemptsMade != 1 || len(e.n.Attempts) != 1 || e.n.Attempts[0].Reason != notice.ReasonUnreported ||
			e.n.AwaitsReport {
			t.Errorf("%d calls, %+v", w.calls, e.n)
		}
		if after := s.ended[0].After; s.ended[0].Ending != store.EndRetry || after != 15*time.Second {
			t.Errorf("%s after %s", s.ended[0].Ending, after)
		}
		drain(t, d)
	})
}

// Time in which Redis is unavailable does not count against the deadline of a report. A consumer
// that reports nothing afterwards has used an attempt.
func TestOutageExtendsTheReportDeadline(t *testing.T) {
	const timeout = 10 * time.Second
	for name, c := range map[string]struct {
		from, until time.Duration // of the outage, after the push
		known       bool          // this process saw failed claims
		ends        time.Duration // deadline of the report, after the push
	}{
		"none":                      {0, 0, false, timeout},
		"amid the wait":             {2 * time.Second, 5 * time.Second, true, timeout},
		"just before its end":       {8 * time.Second, timeout - 100*time.Millisecond, true, timeout - 100*time.Millisecond + reportGrace},
		"over its end":              {4 * time.Second, 12 * time.Second, true, 20 * time.Second},
		"much longer than the wait": {time.Second, time.Hour, true, time.Hour + timeout},
		"nobody noticed it":         {4 * time.Second, 12 * time.Second, false, 12*time.Second + reportGrace},
		"unnoticed, and it lasts":   {time.Second, time.Hour, false, time.Hour + timeout},
	} {
		reportDeadline := func(t *testing.T, expires bool) {
			synctest.Test(t, func(t *testing.T) {
				s, w := newFakeStore(), taking(0)
				r := testRoute("a", 4)
				r.Timeout, r.Ack.Kind = timeout, route.AckReport
				pushed := time.Now()
				s.put("a", 0, 1)
				e := s.entries[0]
				e.n.AwaitsReport, e.lapses, e.at = true, 1, pushed.Add(timeout)
				e.n.Add(notice.Attempt{Number: 1, At: pushed})
				if expires {
					e.n.Expires = pushed.Add(time.Second)
				}
				d := begin(options(s, w, 10, r))
				ended := func() int {
					s.mu.Lock()
					defer s.mu.Unlock()
					return len(slices.DeleteFunc(slices.Clone(s.ended), func(t store.Settlement) bool { return t.Ending == store.EndHanded }))
				}
				for ended() == 0 && time.Since(pushed) < 2*time.Hour {
					at := time.Since(pushed)
					away := at >= c.from && at < c.until
					s.do(func() {
						if s.claim = nil; away && c.known {
							s.claim = errDown
						}
					})
					if !away || c.known {
						if expires {
							d.Expire(keys.Partition{Prefix: "a"})
						}
						d.SweepDue(keys.Partition{Prefix: "a"})
					}
					after(50 * time.Millisecond)
				}
				if took := time.Since(pushed); took < c.ends || took > c.ends+time.Second+500*time.Millisecond {
					t.Errorf("the wait ended after %s, want %s", took, c.ends)
				}
				if w.calls != 0 || e.n.AttemptsMade != 1 || len(e.n.Attempts) != 1 || e.n.Attempts[0].Reason != notice.ReasonUnreported ||
					e.n.AwaitsReport {
					t.Errorf("%d calls, %+v", w.calls, e.n)
				}
				if reason := e.n.Reason; (reason == notice.ReasonExpired) != expires {
					t.Errorf("ended as %q", reason)
				}
				drain(t, d)
			})
		}
		t.Run(name, func(t *testing.T) { reportDeadline(t, false) })
		t.Run(name+", expires meanwhile", func(t *testing.T) { reportDeadline(t, true) })
	}
}

// While Redis answers claims but no settles, the number of unsettled attempts is bounded: all of
// them are handled again if this process dies.
func TestUnsettledAttemptsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const slots = 16
		s, w := newFakeStore(), taking(time.Millisecond)
		s.put("a", 0, 5000)
		s.held = make(chan struct{})
		d := begin(options(s, w, 1000, testRoute("a", slots)))
		after(time.Minute)
		if most := maxUnsettled + maxCalls*maxBatch + 2*slots; w.count() > most || d.InFlight("a") > most {
			t.Errorf("%d handled, %d under way, none settled; want at most %d", w.count(), d.InFlight("a"), most)
		}
		close(s.held)
		after(time.Minute)
		if w.count() != 5000 || s.endings()[store.EndDelivered] != 5000 {
			t.Errorf("%d handled, %v", w.count(), s.endings())
		}
		quiet(t, d)
		drain(t, d)
	})
}

// An attempt whose claim was reclaimed did not last for a whole lease.
func TestInterruptedAttemptEndsWithItsLeaseOrTheReclaim(t *testing.T) {
	r := testRoute("a", 1)
	now := time.Now()
	for _, c := range []struct{ ago, want time.Duration }{{2 * time.Second, 2 * time.Second}, {time.Hour, r.Lease()}, {-time.Second, 0}} {
		n := &notice.Notice{Key: "a:b:c:d", Due: now.Add(-c.ago)}
		countExpired(r, &store.Claim{Notice: n, Lapses: 1}, now)
		if len(n.Attempts) != 1 || n.Attempts[0].Duration != c.want || n.Attempts[0].Reason != notice.ReasonInterrupted {
			t.Errorf("claimed %s ago: %+v, want %s", c.ago, n.Attempts, c.want)
		}
	}
}
