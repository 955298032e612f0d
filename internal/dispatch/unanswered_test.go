package dispatch

import (
	"cmp"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

func TestUnansweredCallsAreRetriedAsSlotsAllow(t *testing.T) {
	var u unanswered
	if u.wants() != 0 {
		t.Errorf("wants %d", u.wants())
	}
	u.add(call{token: "keys", keys: []string{"a", "b", "c"}, n: 3})
	u.add(call{token: "sweep", n: 8, asked: 8})
	if c := u.take(2); !slices.Equal(c.keys, []string{"a", "b"}) || c.n != 2 {
		t.Errorf("%+v", c)
	}
	if c := u.take(5); c.token != "sweep" || c.n != 5 {
		t.Errorf("%+v", c)
	}
	if c := u.take(u.wants()); c.token != "keys" || !slices.Equal(c.keys, []string{"c"}) || c.n != 1 || u.wants() != 0 {
		t.Errorf("%+v; want the key that had no slot", c)
	}
	for range 2 * maxUnanswered {
		u.add(call{n: 1})
	}
	if len(u.calls) != maxUnanswered {
		t.Errorf("%d are remembered", len(u.calls))
	}
}

// The parts of one call took all places: the next part was forgotten, and its notices waited for the end of their leases.
func TestPartsOfACallAreRetriedTogether(t *testing.T) {
	var u unanswered
	c := call{token: "a", n: 3 * maxUnanswered}
	for i := range c.n {
		c.keys = append(c.keys, strconv.Itoa(i))
	}

	u.add(c)
	parts := []call{u.take(2), u.take(3)}
	for i := range maxUnanswered - 1 {
		u.add(call{token: "b", n: 1, asked: i})
	}

	for _, p := range parts {
		if !u.add(p) {
			t.Errorf("forgot %v", p.keys)
		}
	}

	got := u.take(c.n)
	slices.SortFunc(got.keys, func(a, b string) int { return cmp.Compare(len(a), len(b))*2 + cmp.Compare(a, b) })
	if !slices.Equal(got.keys, c.keys) || got.n != c.n {
		t.Errorf("%d, %v", got.n, got.keys)
	}
}

func TestUnansweredSweepIsRecoveredSeveralTimes(t *testing.T) {
	var waits []time.Duration
	for looks := range 5 {
		if d, again := recovery(call{rounds: looks}); again {
			waits = append(waits, d)
		}
	}
	if !slices.Equal(waits, recoveries) {
		t.Errorf("%v", waits)
	}
}

// A recovery call runs with fewer slots than the sweep had. All claims are found as slots become
// free, without waiting for the next recovery call a second later or for the lease.
func TestRecoveryWithFewSlotsFindsAllClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, w := newFakeStore(), taking(10*time.Millisecond)
		s.put("a", 0, 6)
		s.claim = errUnanswered
		d := begin(options(s, w, 100, testRoute("a", 8)))
		d.SetSlots("a", 1)
		synctest.Wait()
		if s.won["a:m:t:5"] != 1 {
			t.Fatalf("the sweep has won %v", s.won)
		}
		s.do(func() { s.claim = nil })
		after(minBackoff + 100*time.Millisecond)
		if w.count() != 6 || w.top != 1 {
			t.Errorf("%d of 6 began, %d at once in one slot; calls %v", w.count(), w.top, s.calls)
		}
		after(time.Minute)
		if n := len(s.calls); n > 20 {
			t.Errorf("%d calls: %v", n, s.calls)
		}
		d.SetSlots("a", 8)
		quiet(t, d)
		drain(t, d)
	})
}

// A recovery call without a reply does not count: the claims are searched as soon as Redis answers,
// and again a second later.
func TestUnansweredRecoveryIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, w := newFakeStore(), taking(time.Millisecond)
		s.put("a", 0, 1)
		s.claim = errDown
		d := begin(options(s, w, 10, testRoute("a", 4)))
		after(5 * time.Second) // recovery calls fail during that time
		e := s.entries[0]
		s.do(func() { s.claim, s.entries = nil, nil })
		after(maxBackoff + time.Millisecond)
		s.do(func() { // Redis runs the sweep after it has answered the recovery call
			e.claimed, e.token = true, s.tokens[0]
			s.entries = append(s.entries, e)
		})
		after(recoveries[0] + time.Millisecond)
		if w.count() != 1 {
			t.Errorf("%d handled; calls %v", w.count(), s.calls)
		}
		after(time.Minute)
		quiet(t, d)
		drain(t, d)
	})
}
