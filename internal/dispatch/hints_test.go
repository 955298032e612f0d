package dispatch

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/keys"
	"notifier/internal/store"
)

func TestBacklogLeavesSlotsToExpectedHints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, w := newFakeStore(), taking(time.Second)
		s.put("a", 0, 60)
		d := begin(options(s, w, 100, testRoute("a", 16)))
		after(900 * time.Millisecond)
		if n := w.count(); n != 15 {
			t.Errorf("%d began; want all slots but one, no hint having come", n)
		}
		if !d.Hint(d.queues["a"].r, "a:m:t:30") {
			t.Error("a hint found no slot")
		}
		after(50 * time.Millisecond)
		if n := w.count(); n != 16 {
			t.Errorf("%d began; want the hinted one too", n)
		}
		after(100 * time.Millisecond) // the first 15 are done
		if n := w.count(); n != 27 {
			t.Errorf("%d began; want 11 more, 4 slots being left to hints", n)
		}
		drain(t, d)
	})
}

// Redis sends the events of one due time together.
func TestHintsThatComeTogetherAreClaimedInOneCall(t *testing.T) {
	// With one processor the listener's goroutine passes on all before another one runs, unless it is preempted.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	synctest.Test(t, func(t *testing.T) {
		const rounds = 20
		s, w := newFakeStore(), taking(time.Millisecond)
		d := begin(options(s, w, 100, testRoute("a", 16)))
		after(time.Second)
		together := 0
		for n := range rounds {
			s.put("a", 0, 3)
			begun := len(s.calls)
			for i := range 3 {
				d.Hint(d.queues["a"].r, fmt.Sprintf("a:m:t:%d", 3*n+i))
			}
			after(time.Second)
			if calls := s.calls[begun:]; len(calls) > 0 && calls[0] == "keys a/0 3" {
				together++
			}
		}
		if together < rounds*3/4 || w.count() != 3*rounds {
			t.Errorf("%d of %d groups were claimed in one call, %d notices handled: %v", together, rounds, w.count(), s.calls)
		}
		drain(t, d)
	})
}

func TestHintsAreTakenShardByShard(t *testing.T) {
	var h hints
	for _, k := range []string{"a0", "b1", "c0", "d1", "e0"} {
		if !h.add(k, triggerEvent, 1) {
			t.Errorf("no room for %s", k)
		}
	}
	of := shards{2, map[string]int{"b1": 1, "d1": 1}}
	for _, want := range []struct {
		keys  []string
		shard int
	}{{[]string{"a0", "c0"}, 0}, {[]string{"b1", "d1"}, 1}, {[]string{"e0"}, 0}} {
		if keys, _, shard := h.take(2, of); !slices.Equal(keys, want.keys) || shard != want.shard {
			t.Errorf("%v of shard %d, want %v of %d", keys, shard, want.keys, want.shard)
		}
	}
	if h.add("f0", triggerEvent, 0) {
		t.Error("a hint was taken without a free slot")
	}
	for range maxHintsAhead + 9 {
		h.add("g0", triggerEvent, 2)
	}
	if n := len(h.waiting); n != maxHintsAhead+2 {
		t.Errorf("%d wait", n)
	}
	if keys, _, _ := h.take(3, nil); len(keys) != 3 || len(h.waiting) != maxHintsAhead-1 {
		t.Errorf("%v, %d are left", keys, len(h.waiting))
	}
}

// answersLate is a store whose sweeps are answered some time after Redis executed them.
type answersLate struct {
	*fakeStore
	by time.Duration
}

func (s *answersLate) Sweep(ctx context.Context, p keys.Partition, lease store.Lease, o store.SweepOptions) (store.Claimed, error) {
	defer time.Sleep(s.by)
	return s.fakeStore.Sweep(ctx, p, lease, o)
}

// A sweep in flight reserves free slots and returns most of them. Hints that come meanwhile must
// not be dropped: later sweeps leave a quarter of the slots to hints, so the notices would wait for
// the end of an attempt although slots are free.
func TestHintsWaitForTheSlotsThatASweepReserves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, w := &answersLate{newFakeStore(), 10 * time.Millisecond}, taking(time.Minute)
		s.put("a", 0, 12)
		d := begin(options(s, w, 100, testRoute("a", 16)))
		after(time.Second)
		if n := w.count(); n != 12 {
			t.Fatalf("%d began, want 12", n)
		}
		d.SweepDue(keys.Partition{Prefix: "a"})
		synctest.Wait()
		s.put("a", 0, 4)
		for n := range 4 {
			if !d.Hint(d.queues["a"].r, fmt.Sprintf("a:m:t:%d", 12+n)) {
				t.Errorf("hint %d was dropped", n)
			}
		}
		after(s.by)
		if n := w.count(); n != 16 {
			t.Errorf("%d began, want all 16 when the sweep is answered", n)
		}
		drain(t, d)
		quiet(t, d)
	})
}
