package dispatch

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/notice"
)

func TestSlotsLeaveSomeToHintsAndSomeToSweeps(t *testing.T) {
	for _, c := range []struct {
		name                      string
		s                         slots
		events, expected, oneHost bool
		want                      int
	}{
		{"no events", slots{all: 64, free: 64}, false, true, false, 64},
		{"a quarter is left while hints come", slots{all: 64, free: 64}, true, true, false, 48},
		{"few are left while none comes", slots{all: 64, free: 64}, true, false, false, 60},
		{"a quarter is reserved for the sweep", slots{all: 64, free: 10}, true, true, false, 10},
		{"which is used up", slots{all: 64, free: 10, swept: 16}, true, true, false, 0},
		{"one is left while none comes for the one host", slots{all: 64, free: 64}, true, false, true, 63},
		{"none of 16", slots{all: 16, free: 16}, true, false, true, 16},
		{"a quarter of 16 while hints come", slots{all: 16, free: 16}, true, true, true, 12},
		{"a small route leaves one", slots{all: 4, free: 4}, true, false, false, 3},
		{"one slot is for both", slots{all: 1, free: 1}, true, true, false, 1},
		{"none is free", slots{all: 8}, true, true, false, 0},
	} {
		if got := max(c.s.forSweep(c.s.kept(c.events, c.expected, c.oneHost)), 0); got != c.want {
			t.Errorf("%s: a sweep may take %d, want %d", c.name, got, c.want)
		}
	}
}

func TestSlotsOfACallAreFreed(t *testing.T) {
	s := newSlots(8)
	s.begin(triggerSweep, 3)
	s.begin(triggerEvent, 2)
	if want := (slots{all: 8, free: 3, swept: 3, looking: 3, running: 5, hintCalls: 1, sweepCalls: 1}); s != want {
		t.Errorf("%+v, want %+v", s, want)
	}
	s.answered(triggerSweep, 3)
	s.answered(triggerEvent, 2)
	s.release(freed{slots: 5, swept: 3}) // the attempts are not settled yet
	if want := (slots{all: 8, free: 8, running: 5}); s != want {
		t.Errorf("%+v, want %+v", s, want)
	}
	s.release(freed{running: 5})
	if s != newSlots(8) {
		t.Errorf("%+v", s)
	}
}

func TestSecondCallWaitsForAMinimum(t *testing.T) {
	s := newSlots(100)
	for _, c := range []struct {
		running, n int
		want       bool
	}{{0, 1, true}, {1, claimBatchMin - 1, false}, {1, claimBatchMin, true}, {maxCalls, maxBatch, false}} {
		if got := s.mayCall(c.running, c.n); got != c.want {
			t.Errorf("%d beside %d calls: %v", c.n, c.running, got)
		}
	}
}

// Freed slots go first to the route that holds the fewest.
func TestFreedSlotGoesToTheSmallestShare(t *testing.T) {
	tot := total{free: 6}
	a, b, c := share{weight: 1}, share{weight: 1}, share{weight: 1}
	for _, take := range []struct {
		s         *share
		n, expect int
	}{{&a, 4, 4}, {&b, 3, 2}, {&c, 1, 0}, {&a, 1, 0}, {&b, 1, 0}} {
		if got := tot.take(take.s, take.n); got != take.expect {
			t.Errorf("got %d, want %d", got, take.expect)
		}
	}
	if tot.room() != 0 {
		t.Errorf("room %d", tot.room())
	}
	if w := tot.give(&a, 0); w != nil {
		t.Error("no slot was freed, but a route is woken")
	}
	if w := tot.give(&a, 1); !slices.Equal(w, []*share{&c, &b, &a}) || tot.room() != 1 {
		t.Errorf("woken in the order %v of c %p, b %p, a %p", w, &c, &b, &a)
	}
	if w := tot.give(&b, 2); len(w) != 0 {
		t.Error("a woken route still waits")
	}
}

// While slots are scarce, routes run handlers in proportion to their weights.
func TestScarceSlotsAreSharedByWeight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeStore()
		w := newWork(func(context.Context, *notice.Notice) notice.Result {
			time.Sleep(10*time.Millisecond + rand.N(5*time.Millisecond))
			return notice.DeliveredResult(200)
		})
		light, heavy := testRoute("a", 64), testRoute("b", 64)
		heavy.Weight = 3
		s.put("a", 0, 2000)
		s.put("b", 0, 2000)
		d := begin(options(s, w, 32, light, heavy))
		var a, b int
		for range 40 {
			after(10 * time.Millisecond)
			w.mu.Lock()
			a, b = a+w.running["a"], b+w.running["b"]
			w.mu.Unlock()
		}
		if share := float64(b) / float64(a); share < 2 || share > 4 {
			t.Errorf("%d and %d handlers of weight 1 and 3 ran on average", a/40, b/40)
		}
		drain(t, d)
	})
}

// Regression test: a claim that follows a running attempt takes a slot even if none is free. Room
// then returned a negative number, from which a sweep made a list, and the process crashed.
func TestRoomIsNeverNegative(t *testing.T) {
	tot := total{free: 2}
	var a share
	tot.force(&a, 3)
	if tot.room() != 0 || tot.take(&a, 1) != 0 {
		t.Errorf("room %d while one more is taken than there are", tot.room())
	}
	tot.give(&a, 2)
	if tot.room() != 1 {
		t.Errorf("room %d after two came free", tot.room())
	}
}
