package dispatch

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func TestUnansweredCallsAreTakenAsSlotsAllow(t *testing.T) {
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

func TestASweepIsLookedForAFewTimes(t *testing.T) {
	var waits []time.Duration
	for looks := range 5 {
		if d, again := recovery(call{looks: looks}); again {
			waits = append(waits, d)
		}
	}
	if !slices.Equal(waits, recoveries) {
		t.Errorf("%v", waits)
	}
}

// There are fewer slots when it is looked for what a sweep has won than there were
// when it was made. All of it is found as slots come free: nothing waits for the next
// look, a second later, or for its lease.
func TestALookWithFewSlotsFindsAllThatTheSweepHasWon(t *testing.T) {
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

// A look that has no answer itself is none of the few: what the sweep has won is
// looked for as soon as Redis answers, and then once more a second later.
func TestALookWithoutAnAnswerIsMadeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, w := newFakeStore(), taking(time.Millisecond)
		s.put("a", 0, 1)
		s.claim = errDown
		d := begin(options(s, w, 10, testRoute("a", 4)))
		after(5 * time.Second) // in which look after look fails
		e := s.entries[0]
		s.do(func() { s.claim, s.entries = nil, nil })
		after(maxBackoff + time.Millisecond)
		s.do(func() { // Redis carries the sweep out after the look that it has answered
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
