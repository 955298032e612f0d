package dispatch

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/store"
)

func TestSlotsAreNeverExceeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, w := newFakeStore(), taking(time.Second)
		s.put("a", 0, 500)
		s.put("b", 0, 500)
		d := begin(options(s, w, 12, testRoute("a", 8), testRoute("b", 8)))
		d.Sweep(keys.Partition{Prefix: "a"})
		d.Sweep(keys.Partition{Prefix: "b"})
		after(time.Hour)
		if w.calls != 1000 || w.top != 12 || w.most["a"] > 8 || w.most["b"] > 8 {
			t.Errorf("%d handled, at most %d at once, of the routes %v; want 1000, 12 and up to 8", w.calls, w.top, w.most)
		}
		for k, n := range s.won {
			if n != 1 {
				t.Errorf("%s was claimed %d times", k, n)
			}
		}
		quiet(t, d)
		drain(t, d)
	})
}

// With fewer slots, no attempt starts until enough are free; with none, other instances handle
// everything; with more, it continues.
func TestSlotsChangeWhileTheyAreTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, w := newFakeStore(), taking(10*time.Second)
		s.put("a", 0, 200)
		r := testRoute("a", 8)
		d := begin(options(s, w, 100, r))
		after(time.Second)
		d.SetSlots("a", 2)
		d.SetSlots("nobody's", 2)
		began := w.count()
		after(10 * time.Second)
		if n := w.count() - began; n > 2 {
			t.Errorf("%d began together with 2 slots", n)
		}
		d.SetSlots("a", 0)
		after(20 * time.Second)
		before := w.count()
		if !d.Hint(r, "a:m:t:1") || d.Room(keys.Partition{Prefix: "a"}) != 0 {
			t.Error("a hint for other instances counts as dropped")
		}
		after(time.Minute)
		if n := w.count() - before; n > 0 {
			t.Errorf("%d were handled without a slot", n)
		}
		d.SetSlots("a", 16)
		after(time.Hour)
		if n := w.count(); n != 200 {
			t.Errorf("%d of 200 were handled", n)
		}
		d.SetSlots("a", 8)
		quiet(t, d)
		drain(t, d)
	})
}

// A route with a backlog holds every slot of the total. The notice of another route gets the first
// freed slot, not the last.
func TestSaturatedRouteSharesTheTotal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeStore()
		first := map[string]time.Duration{}
		begun := time.Now()
		mu, turn := make(chan struct{}, 1), 0
		w := newWork(func(_ context.Context, n *notice.Notice) notice.Result {
			mu <- struct{}{}
			if _, ok := first[n.Route]; !ok {
				first[n.Route] = time.Since(begun)
			}
			turn++
			odd := time.Duration(turn%7) * 130 * time.Millisecond
			<-mu
			time.Sleep(time.Second + odd) // slots become free one by one
			return notice.DeliveredResult(200)
		})
		for _, p := range []string{"a", "c"} {
			s.put(p, 0, 5000)
		}
		d := begin(options(s, w, 4, testRoute("a", 64), testRoute("b", 64), testRoute("c", 64)))
		d.Sweep(keys.Partition{Prefix: "a"})
		d.Sweep(keys.Partition{Prefix: "c"})
		after(100 * time.Millisecond)
		s.put("b", 0, 1)
		d.Sweep(keys.Partition{Prefix: "b"})
		after(time.Minute)
		if at, ok := first["b"]; !ok || at > 3*time.Second {
			t.Errorf("the other route's notice began after %s (%v), want within some handlers' time", at, ok)
		}
		if at := first["c"]; at > 5*time.Second {
			t.Errorf("the second backlog began after %s", at)
		}
		s.do(func() { s.entries = nil })
		after(time.Minute)
		quiet(t, d)
		drain(t, d)
	})
}

func TestHintsBeyondRoomAreDroppedAndSwept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, w := newFakeStore(), taking(time.Second)
		s.put("a", 0, 1000)
		r := testRoute("a", 4)
		d := begin(options(s, w, 100, r))
		synctest.Wait() // the sweep that begins with SetPaused
		taken := 0
		for i := range 1000 {
			if d.Hint(r, fmt.Sprintf("a:m:t:%d", i)) {
				taken++
			}
		}
		if taken > 4+maxHintsAhead {
			t.Errorf("%d hints were taken with 4 slots", taken)
		}
		after(10 * time.Minute)
		d.Sweep(keys.Partition{Prefix: "a"})
		after(10 * time.Minute)
		if w.calls != 1000 {
			t.Errorf("%d of 1000 were handled", w.calls)
		}
		if d.Hint(&route.Route{Prefix: "nobody's"}, "x:m:t:1") || d.Room(keys.Partition{Prefix: "nobody's"}) != 0 || d.InFlight("nobody's") != 0 {
			t.Error("an unknown route took a hint")
		}
		drain(t, d)
		if d.Hint(r, "a:m:t:1") || d.Room(keys.Partition{Prefix: "a"}) != 0 {
			t.Error("a hint was taken after Drain")
		}
	})
}

func TestHintWithoutASlotOfTheTotalIsSwept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, w := newFakeStore(), taking(time.Second)
		a, b := testRoute("a", 4), testRoute("b", 4)
		d := begin(options(s, w, 4, a, b))
		synctest.Wait()
		s.put("a", 0, 4)
		d.Sweep(keys.Partition{Prefix: "a"})
		synctest.Wait() // all four of the total are taken
		s.put("b", 0, 1)
		if !d.Hint(b, "b:m:t:4") {
			t.Error("the route has free slots and refused the hint")
		}
		synctest.Wait()
		if d.Room(keys.Partition{Prefix: "b"}) != 0 {
			t.Errorf("room %d, want none while the total is used up", d.Room(keys.Partition{Prefix: "b"}))
		}
		after(time.Minute)
		if w.calls != 5 {
			t.Errorf("%d of 5 were handled", w.calls)
		}
		quiet(t, d)
		drain(t, d)
	})
}

func TestBacklogIsSweptFromBothEndsInEachShard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, w := newFakeStore(), taking(time.Second)
		for shard := range 2 {
			s.put("a", shard, 400)
		}
		o := options(s, w, 1000, testRoute("a", 1))
		o.Shards = shards{n: 2}
		d := begin(o)
		after(time.Hour)
		for _, want := range []string{"oldest a/0", "newest a/0", "oldest a/1", "newest a/1"} {
			n := 0
			for _, c := range s.calls {
				if strings.HasPrefix(c, want) {
					n++
				}
			}
			if n < 10 {
				t.Errorf("%s was swept %d times of %d", want, n, len(s.calls))
			}
		}
		if w.calls != 800 {
			t.Errorf("%d of 800 handled", w.calls)
		}
		drain(t, d)
	})
}

func TestHintsOfManyShardsAreClaimedShardByShard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, w := newFakeStore(), taking(time.Second)
		s.put("a", 0, 10)
		s.put("a", 1, 10)
		r := testRoute("a", 64)
		o := options(s, w, 1000, r)
		shard := map[string]int{}
		for _, e := range s.entries {
			shard[e.n.Key] = e.shard
			e.at = time.Now() // within the grace: only hints find them
		}
		o.Shards = shards{2, shard}
		d := begin(o)
		synctest.Wait()
		for k := range shard {
			if !d.Hint(r, k) {
				t.Errorf("%s: no room", k)
			}
		}
		after(10 * time.Millisecond)
		if w.count() != 20 {
			t.Errorf("%d of 20 began", w.count())
		}
		after(time.Minute)
		quiet(t, d)
		drain(t, d)
	})
}

func TestNothingIsClaimedBeforeSetPaused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, w := newFakeStore(), taking(time.Millisecond)
		s.put("a", 0, 3)
		s.put("b", 0, 3)
		a := testRoute("a", 4)
		d := New(options(s, w, 100, a, testRoute("b", 4)))
		d.Sweep(keys.Partition{Prefix: "a"})
		d.Sweep(keys.Partition{Prefix: "b"})
		if d.Hint(a, "a:m:t:0") || d.Room(keys.Partition{Prefix: "a"}) != 0 {
			t.Error("there is room before SetPaused")
		}
		after(time.Minute)
		if len(s.calls) != 0 {
			t.Errorf("claimed: %v", s.calls)
		}
		d.SetPaused(func(p keys.Partition) bool { return p.Prefix == "a" })
		after(time.Minute)
		if w.calls != 3 || w.most["a"] != 0 {
			t.Errorf("%d handled, %v", w.calls, w.most)
		}
		drain(t, d)
	})
}

func TestPausedRouteClaimsNothingAndResumesWithASweep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, w := newFakeStore(), taking(time.Second)
		a := testRoute("a", 4)
		d := begin(options(s, w, 100, a))
		s.put("a", 0, 10)
		d.Sweep(keys.Partition{Prefix: "a"})
		after(500 * time.Millisecond)
		d.SetPaused(func(keys.Partition) bool { return true })
		after(time.Minute)
		if w.calls != 3 || d.Room(keys.Partition{Prefix: "a"}) != 0 || d.Hint(a, "a:m:t:9") {
			t.Errorf("%d handled, room %d; want the 3 that had begun, a slot being left to hints", w.calls, d.Room(keys.Partition{Prefix: "a"}))
		}
		before := len(s.calls)
		d.Sweep(keys.Partition{Prefix: "a"})
		after(time.Minute)
		if len(s.calls) != before {
			t.Errorf("paused, and claimed: %v", s.calls[before:])
		}
		d.SetPaused(none)
		after(time.Minute)
		if w.calls != 10 {
			t.Errorf("%d of 10 after resume", w.calls)
		}
		quiet(t, d)
		drain(t, d)
	})
}

func TestClaimErrorsBackOffAndRecover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, w := newFakeStore(), taking(time.Millisecond)
		s.put("a", 0, 10)
		s.claim = errDown
		a := testRoute("a", 64)
		d := begin(options(s, w, 100, a))
		for range 600 { // hints and sweeps keep coming
			d.Hint(a, "a:m:t:1")
			d.Sweep(keys.Partition{Prefix: "a"})
			after(100 * time.Millisecond)
		}
		// A pause is at most maxBackoff, less a random quarter, and a hint and a sweep may both claim between two pauses.
		// Without pauses there are 1,200 calls.
		most := 2 * int(time.Minute/(maxBackoff-maxBackoff/4))
		if n := len(s.calls); n > most+20 || n < 3*60 {
			t.Errorf("%d claim calls in a minute of errors, want %d at most and 180 at least", n, most+20)
		}
		s.do(func() { s.claim = nil })
		after(2 * time.Second)
		if w.calls != 10 {
			t.Errorf("%d of 10 after recovery", w.calls)
		}
		quiet(t, d)
		drain(t, d)
	})
}

// Redis ran the call but its reply was lost. The claims are found by their token, before their
// lease expires.
func TestLostClaimRepliesAreRecovered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, w := newFakeStore(), taking(time.Millisecond)
		s.put("a", 0, 100)
		s.claim = errUnanswered
		d := begin(options(s, w, 1000, testRoute("a", 40)))
		after(time.Millisecond)
		s.do(func() { s.claim = nil })
		after(10 * time.Second)
		if w.calls != 100 || s.endings()[store.EndDelivered] != 100 {
			t.Errorf("%d of 100, %v, calls %v", w.calls, s.endings(), s.calls)
		}
		for k, n := range s.won {
			if n != 1 {
				t.Errorf("%s was claimed %d times", k, n)
			}
		}
		quiet(t, d)
		drain(t, d)
	})
}

func TestHangingClaimTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, w := newFakeStore(), taking(time.Millisecond)
		s.put("a", 0, 10)
		s.slow = make(chan struct{})
		d := begin(options(s, w, 100, testRoute("a", 64)))
		after(2 * claimTimeout)
		s.do(func() { s.slow = nil })
		after(2 * claimTimeout)
		if w.calls != 10 {
			t.Errorf("%d of 10", w.calls)
		}
		quiet(t, d)
		drain(t, d)
	})
}

// strays records the keys that led to no claim.
type strays []string

// Stale implements Strays.
func (s *strays) Stale(_ *route.Route, ks []string) { *s = append(*s, ks...) }

func TestStaleHintsAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, w := newFakeStore(), taking(0)
		a := testRoute("a", 4)
		o := options(s, w, 10, a)
		var told strays
		o.Strays = &told
		d := begin(o)
		synctest.Wait()
		d.Hint(a, "a:m:t:77")
		synctest.Wait()
		if !slices.Equal(told, []string{"a:m:t:77"}) {
			t.Errorf("%v", told)
		}
		quiet(t, d)
		drain(t, d)
	})
}

// More hints come than there are slots, without end. Overdue notices must not wait for that.
func TestBacklogShrinksDuringAnOverloadOfHints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, w := newFakeStore(), taking(time.Second)
		r := testRoute("a", 8)
		d := begin(options(s, w, 100, r))
		synctest.Wait()
		s.put("a", 0, 50)
		old := map[string]bool{}
		for _, e := range s.entries {
			old[e.n.Key] = true
		}
		d.Sweep(keys.Partition{Prefix: "a"})
		for i := range 20 * 180 {
			s.put("a", 0, 1)
			s.do(func() { s.entries[len(s.entries)-1].at = time.Now() })
			d.Hint(r, fmt.Sprintf("a:m:t:%d", 50+i))
			if i%20 == 0 {
				d.Sweep(keys.Partition{Prefix: "a"})
			}
			after(50 * time.Millisecond)
		}
		left := 0
		s.do(func() {
			for _, e := range s.entries {
				if old[e.n.Key] {
					left++
				}
			}
		})
		if left > 0 || w.count() < 8*170 {
			t.Errorf("%d of 50 are left after three minutes, %d were handled", left, w.count())
		}
		s.do(func() { s.entries = nil })
		after(time.Minute)
		quiet(t, d)
		drain(t, d)
	})
}
