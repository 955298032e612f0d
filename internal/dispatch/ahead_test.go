package dispatch

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/store"
)

// distant is a store with slow claim calls.
type distant struct {
	*fakeStore
	takes time.Duration
}

func (d *distant) Sweep(ctx context.Context, p keys.Partition, lease store.Lease, o store.SweepOptions) (store.Claimed, error) {
	time.Sleep(d.takes)
	return d.fakeStore.Sweep(ctx, p, lease, o)
}

func (d *distant) ClaimPostponed(ctx context.Context, p keys.Partition, lease store.Lease, list []store.Postponed) (store.Claimed, error) {
	time.Sleep(d.takes)
	return d.fakeStore.ClaimPostponed(ctx, p, lease, list)
}

// Slots are not empty during the next claim call, and no more handlers run than there are slots.
func TestNextNoticeIsClaimedBeforeASlotIsFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const slots, rounds, takes = 64, 20, 5 * time.Millisecond
		s, w := &distant{newFakeStore(), 2 * time.Millisecond}, taking(takes)
		s.put("a", 0, slots*rounds)
		from := time.Now()
		d := begin(options(s, w, 512, testRoute("a", slots)))
		for w.count() < slots*rounds {
			after(time.Millisecond)
		}
		// All handlers end at the same time, and half of the next notices are claimed already.
		// Without claims ahead: 140 ms.
		if took, most := time.Since(from), rounds*(takes+s.takes/2); took > most {
			t.Errorf("%d rounds took %s, want %s at most", rounds, took, most)
		}
		if w.top != slots {
			t.Errorf("%d handlers ran at once, want %d", w.top, slots)
		}
		drain(t, d)
		quiet(t, d)
	})
}

func TestNothingIsClaimedAheadOfSlowHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, w := newFakeStore(), taking(time.Second)
		s.put("a", 0, 200)
		d := begin(options(s, w, 512, testRoute("a", 64)))
		after(500 * time.Millisecond)
		for range 3 {
			if n := claimed(s); n != 64-4 { // a sweep leaves some slots to hints
				t.Errorf("%d are claimed", n)
			}
			after(time.Second)
		}
		drain(t, d)
		quiet(t, d)
	})
}

// claimed returns the number of claimed notices.
func claimed(s *fakeStore) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.entries {
		if e.claimed {
			n++
		}
	}
	return n
}

// Notices claimed ahead of handlers that then hang are released soon, for other instances, and no
// more are claimed ahead.
func TestClaimsAheadAreReleasedWhenHandlersHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeStore()
		began := 0
		w := newWork(nil)
		w.do = func(ctx context.Context, _ *notice.Notice) notice.Result {
			w.mu.Lock()
			began++
			hang := began > 100
			w.mu.Unlock()
			if hang {
				<-ctx.Done()
				return notice.RetryResult(notice.ReasonTimeout, "slow")
			}
			time.Sleep(time.Millisecond)
			return notice.DeliveredResult(200)
		}
		s.put("a", 0, 400)
		d := begin(options(s, w, 512, testRoute("a", 64)))
		after(20 * time.Millisecond)
		if n := claimed(s); n != 64+64-4 {
			t.Errorf("%d are claimed while the handlers were quick, want 124", n)
		}
		after(aheadMost + 2*settleInterval)
		if n := claimed(s); n != 64 {
			t.Errorf("%d are claimed, want the 64 whose handlers hang", n)
		}
		for _, e := range s.ended {
			if e.Ending == store.EndPostponed && (e.After != minDeferral || e.Claim.AttemptsMade != 0) {
				t.Errorf("%+v: want due soon, no attempt used", e)
			}
		}
		drain(t, d)
		quiet(t, d)
	})
}

func TestDrainReleasesClaimsAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, w := newFakeStore(), taking(5*time.Millisecond)
		s.put("a", 0, 400)
		d := begin(options(s, w, 512, testRoute("a", 64)))
		after(12 * time.Millisecond)
		begun := w.count()
		if n := claimed(s); n <= 64 {
			t.Fatalf("%d are claimed: none ahead", n)
		}
		drain(t, d)
		if w.count() != begun {
			t.Errorf("%d handlers started after Drain", w.count()-begun)
		}
		quiet(t, d)
	})
}

func TestAheadSize(t *testing.T) {
	for _, c := range []struct {
		slots int
		took  time.Duration
		want  int
	}{
		{64, 0, 64}, {64, time.Millisecond, 64}, {64, 6 * time.Millisecond, 32}, {64, 12 * time.Millisecond, 16}, {64, 100 * time.Millisecond, 1},
		{64, 500 * time.Millisecond, 0}, {4000, 100 * time.Millisecond, 120}, {1, 0, 1}, {0, 0, 0}, {16, time.Minute, 0},
	} {
		var a ahead
		if a.size(c.slots) != 0 {
			t.Error("nothing is known yet, and some are claimed ahead")
		}
		if a.took(c.took); a.size(c.slots) != c.want {
			t.Errorf("%d slots, %s: %d ahead, want %d", c.slots, c.took, a.size(c.slots), c.want)
		}
	}
}
