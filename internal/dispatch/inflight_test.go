package dispatch

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/store"
)

// The reply to a claim comes so late that its lease could end while the handler runs. The notice is
// released and handled under a lease that is long enough.
func TestHandlerDoesNotStartOnAShortLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, w := newFakeStore(), taking(9*time.Second)
		s.put("a", 0, 1)
		n := s.entries[0].n
		s.slow = make(chan struct{})
		d := begin(options(s, w, 10, testRoute("a", 4)))
		after(4500 * time.Millisecond) // of the margin of 5 s
		s.do(func() { close(s.slow); s.slow = nil })
		synctest.Wait()
		if w.count() != 0 {
			t.Error("a handler began with 10.5 s of the lease left and a timeout of 10 s")
		}
		if len(s.ended) != 1 || s.ended[0].Ending != store.EndPostponed || n.AttemptsMade != 0 || !s.ended[0].KeepRecord {
			t.Errorf("settled %+v; want it deferred, no attempt used", s.ended)
		}
		after(time.Second)
		d.Sweep(keys.Partition{Prefix: "a"})
		after(time.Minute)
		if w.calls != 1 || s.endings()[store.EndDelivered] != 1 {
			t.Errorf("%d calls, %v", w.calls, s.endings())
		}
		quiet(t, d)
		drain(t, d)
	})
}

// A reply within the call's timeout is in time. Otherwise a slow Redis would have all its claims
// released.
func TestLeaseOutlastsASlowReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, w := newFakeStore(), taking(time.Second)
		s.put("a", 0, 1)
		s.slow = make(chan struct{})
		d := begin(options(s, w, 10, testRoute("a", 4)))
		after(3 * time.Second)
		s.do(func() { close(s.slow); s.slow = nil })
		synctest.Wait()
		if w.count() != 1 {
			t.Error("no handler began")
		}
		after(time.Minute)
		quiet(t, d)
		drain(t, d)
	})
}

// Redis runs a sweep after the recovery call for it was answered. A stopped node or a broken
// network can delay a call that long.
func TestSweepThatRunsAfterItsRecoveryIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, w := newFakeStore(), taking(time.Millisecond)
		s.put("a", 0, 1)
		s.claim = errDown
		d := begin(options(s, w, 10, testRoute("a", 4)))
		synctest.Wait()
		e := s.entries[0]
		s.do(func() { s.claim, s.entries = nil, nil })
		after(100 * time.Millisecond)
		if !slices.Contains(s.calls, "recover a/0 3") {
			t.Fatalf("%v", s.calls)
		}
		s.do(func() {
			e.claimed, e.token = true, s.tokens[0]
			s.entries = append(s.entries, e)
		})
		after(2 * time.Second)
		if w.count() != 1 {
			t.Errorf("%d handled; calls %v", w.count(), s.calls)
		}
		after(time.Minute)
		if n := len(s.calls); n > 10 {
			t.Errorf("%d calls: %v", n, s.calls)
		}
		quiet(t, d)
		drain(t, d)
	})
}

// The lateness of an attempt counts from the due time, even if the claimant died or the claim's
// reply was lost.
func TestLatenessCountsFromTheDueTime(t *testing.T) {
	for _, lapses := range []int{0, 1} {
		synctest.Test(t, func(t *testing.T) {
			s, w := newFakeStore(), taking(time.Millisecond)
			s.put("a", 0, 1) // due a minute ago
			s.entries[0].lapses = lapses
			o := options(s, w, 10, testRoute("a", 4))
			var late lateness
			o.Observer = &late
			d := begin(o)
			after(time.Second)
			if want := []string{"none 1m0s"}; !slices.Equal(late.all(), want) {
				t.Errorf("after %d lapses: late %v, want %v", lapses, late.all(), want)
			}
			if n := s.ended[0].Claim.Notice; n.Attempts[0].At.Before(n.Due) {
				t.Errorf("the first attempt was at %s, before the due time %s", n.Attempts[0].At, n.Due)
			}
			drain(t, d)
		})
	}
}

// The keys of hints whose claim call lost its reply are claimed again by a retry of that call, as
// slots become free.
func TestLostClaimOfHintsIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, w := newFakeStore(), taking(time.Second)
		r := testRoute("a", 8)
		d := begin(options(s, w, 100, r))
		synctest.Wait()
		s.put("a", 0, 8)
		s.do(func() {
			for _, e := range s.entries {
				e.at = time.Now() // within the grace
			}
			s.claim = errUnanswered
		})
		for _, e := range s.entries {
			d.Hint(r, e.n.Key)
		}
		synctest.Wait()
		s.do(func() { s.claim = nil })
		after(40 * time.Millisecond)
		if w.count() != 8 {
			t.Errorf("%d of 8 began, calls %v", w.count(), s.calls)
		}
		after(time.Minute)
		for k, n := range s.won {
			if n != 1 {
				t.Errorf("%s was won %d times", k, n)
			}
		}
		if w.calls != 8 || s.endings()[store.EndDelivered] != 8 {
			t.Errorf("%d calls, %v", w.calls, s.endings())
		}
		quiet(t, d)
		drain(t, d)
	})
}

// A later claim of an in-flight notice waits for the settle. A repeated claim and a third one need
// no slot, since the second one has it.
func TestInFlightKeepsOneLaterClaim(t *testing.T) {
	h, n := newInFlight(alone("a")), &notice.Notice{Key: "a:b:c:d", Made: 1}
	claims := make([]store.Claim, 3)
	for i := range claims {
		claims[i] = store.Reported(store.Found{Notice: &notice.Notice{Key: n.Key, Made: 1, AttemptsMade: i}})
	}
	for i, want := range []struct{ had, idle int }{{0, 0}, {1, 0}, {1, 1}} {
		if had, idle := h.add(claims[i:i+1], job{trigger: triggerEvent}); len(had) != want.had || idle != want.idle {
			t.Errorf("claim %d: %d are in flight, %d slots not needed; want %+v", i, len(had), idle, want)
		}
	}
	if had, idle := h.add(claims[2:3], job{}); len(had) != 1 || idle != 1 {
		t.Errorf("found again: %d are in flight, %d slots not needed", len(had), idle)
	}
	if next := h.settled(&claims[0]); next == nil || next.claim != &claims[2] || next.trigger != triggerEvent {
		t.Errorf("%+v, want the last claim", next)
	}
	if next := h.settled(&claims[2]); next != nil || len(h.held) != 0 {
		t.Errorf("%+v, %d in flight", next, len(h.held))
	}
}

// Regression test: a recovery call found a claim just before its settle and was answered after it;
// the notice was handled twice.
func TestRecoveryDoesNotStartASettledNotice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, w := newFakeStore(), taking(recoveries[0]+20*time.Millisecond)
		s.put("a", 0, 1)
		s.claim = errUnanswered
		d := begin(options(s, w, 100, testRoute("a", 8)))
		synctest.Wait()
		s.do(func() { s.claim = nil })
		after(minBackoff + 100*time.Millisecond) // the first recovery call has found the claim
		late := make(chan struct{})
		s.do(func() { s.late = late })
		after(recoveries[0])
		s.do(func() {
			if len(s.ended) != 1 || w.calls != 1 {
				t.Fatalf("settled %d times, handled %d times", len(s.ended), w.calls)
			}
			s.late = nil
		})
		close(late) // the reply to the second recovery call
		after(time.Minute)
		if w.count() != 1 {
			t.Errorf("it was handled %d times; calls %v", w.count(), s.calls)
		}
		quiet(t, d)
		drain(t, d)
	})
}

// hinted is a fakeStore that calls a function at the start of each claim of hinted keys.
type hinted struct {
	*fakeStore
	begins func()
}

func (h *hinted) ClaimKeys(ctx context.Context, p keys.Partition, lease store.Lease, ks []string) (store.Claimed, error) {
	h.begins()
	return h.fakeStore.ClaimKeys(ctx, p, lease, ks)
}

// A sweep with both slots claims one notice. The slot that it does not need is freed for a hint once the claim is recorded:
// a call with freed slots may return the same notice.
func TestReplyIsInFlightBeforeItsSlotsAreFreed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, w := newFakeStore(), taking(time.Second)
		s.put("a", 0, 1)
		s.slow = make(chan struct{})
		r := testRoute("a", 2)
		h := &hinted{fakeStore: s}
		d := New(options(h, w, 10, r))
		calls := 0
		h.begins = func() {
			calls++
			f := d.queues["a"].inFlight
			f.mu.Lock()
			defer f.mu.Unlock()
			if len(f.held) != 1 {
				t.Errorf("%d notices in flight, want 1", len(f.held))
			}
		}
		d.SetPaused(none)
		synctest.Wait()
		d.Hint(r, "a:m:t:77")
		synctest.Wait()
		if calls != 0 {
			t.Error("the hint was claimed without a slot")
		}
		s.do(func() { close(s.slow); s.slow = nil })
		synctest.Wait()
		if calls != 1 {
			t.Errorf("%d claims of hints, want 1", calls)
		}
		after(time.Minute)
		quiet(t, d)
		drain(t, d)
	})
}
