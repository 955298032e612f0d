package dispatch

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/keys"
)

func TestABacklogLeavesSlotsToHintsWhileSomeCome(t *testing.T) {
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

func TestHintsAreTakenShardByShard(t *testing.T) {
	var h hints
	for _, k := range []string{"a0", "b1", "c0", "d1", "e0"} {
		if !h.add(k, 1) {
			t.Errorf("no room for %s", k)
		}
	}
	shard := func(k string) int { return int(k[1] - '0') }
	for _, want := range []struct {
		keys  []string
		shard int
	}{{[]string{"a0", "c0"}, 0}, {[]string{"b1", "d1"}, 1}, {[]string{"e0"}, 0}} {
		if keys, of := h.take(2, shard); !slices.Equal(keys, want.keys) || of != want.shard {
			t.Errorf("%v of shard %d, want %v of %d", keys, of, want.keys, want.shard)
		}
	}
	if h.add("f0", 0) {
		t.Error("a hint was taken without a free slot")
	}
	for range maxHintsAhead + 9 {
		h.add("g0", 2)
	}
	if n := len(h.waiting); n != maxHintsAhead+2 {
		t.Errorf("%d wait", n)
	}
	if keys, _ := h.take(3, nil); len(keys) != 3 || len(h.waiting) != maxHintsAhead-1 {
		t.Errorf("%v, %d are left", keys, len(h.waiting))
	}
}

// What is due and for this instance is claimed by a call that expires its timer, and the
// event of that is no hint; a later one is.
func TestWhatIsDueIsClaimedWithItsTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, w := newFakeStore(), taking(time.Millisecond)
		d := begin(options(s, w, 100, testRoute("a", 2)))
		r, p := d.queues["a"].r, keys.Partition{Prefix: "a"}
		synctest.Wait()
		s.put("a", 0, 2)
		s.calls = nil
		if rest := d.Due(p, []string{"a:m:t:0", "a:m:t:1"}, "me"); len(rest) > 0 {
			t.Errorf("no room for %q", rest)
		}
		synctest.Wait()
		for i := range 4 {
			if !d.Expired(r, fmt.Sprint("a:m:t:", i/2)) { // twice each: the second one tells something
				t.Errorf("event %d was dropped", i)
			}
			after(expectFor / 8)
		}
		if want := []string{`2 of a:m:t:0 a:m:t:1 for "me"`}; !slices.Equal(s.expired, want) {
			t.Errorf("expired %q, want %q", s.expired, want)
		}
		if want := []string{"keys a/0 2", "keys a/0 1", "keys a/0 1"}; !slices.Equal(s.calls, want) {
			t.Errorf("calls %q, want %q", s.calls, want)
		}
		// One that has not come is not waited for.
		s.put("a", 0, 1)
		d.Due(p, []string{"a:m:t:2"}, "")
		after(expectFor + time.Millisecond)
		d.Expired(r, "a:m:t:2")
		after(time.Millisecond)
		if n := len(s.calls); n != 5 || len(s.expired) != 2 {
			t.Errorf("calls %q, expired %q", s.calls, s.expired)
		}
		drain(t, d)
		if rest := d.Due(p, []string{"a:m:t:3"}, ""); len(rest) != 1 {
			t.Error("taken after the end")
		}
	})
}

// A call that brings other hints too says of how many the timers expire: so many events
// come, and the others hear how many are not for them.
func TestACallTellsHowManyTimersItExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, w := newFakeStore(), taking(time.Millisecond)
		d := begin(options(s, w, 100, testRoute("a", 8)))
		p := keys.Partition{Prefix: "a"}
		synctest.Wait()
		s.put("a", 0, 3)
		s.slow = make(chan struct{})
		d.Due(p, []string{"a:m:t:0"}, "me") // under way, so that the next ones wait
		synctest.Wait()
		d.Hint(d.queues["a"].r, "a:m:t:1")
		d.Due(p, []string{"a:m:t:2"}, "me")
		close(s.slow)
		after(10 * time.Millisecond)
		if want := []string{`1 of a:m:t:0 for "me"`, `1 of a:m:t:1 a:m:t:2 for "me"`}; !slices.Equal(s.expired, want) {
			t.Errorf("expired %q, want %q", s.expired, want)
		}
		drain(t, d)
	})
}

// What there is no room for is left to others, and to its event.
func TestThereIsRoomForSomeOfWhatIsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, w := newFakeStore(), taking(time.Second)
		d := begin(options(s, w, 100, testRoute("a", 1)))
		p := keys.Partition{Prefix: "a"}
		synctest.Wait()
		s.put("a", 0, 2)
		d.Due(p, []string{"a:m:t:0"}, "")
		after(time.Millisecond)
		if rest := d.Due(p, []string{"a:m:t:1"}, ""); len(rest) != 1 {
			t.Error("taken without a slot")
		}
		if d.Due(keys.Partition{Prefix: "other"}, []string{"other:m:t:1"}, "") == nil {
			t.Error("taken without a route")
		}
		if n := len(s.expired); n != 1 {
			t.Errorf("expired %q", s.expired)
		}
		drain(t, d)
	})
}

// What is a little early by Redis's clock is claimed, and its timer expired, when it is due.
func TestWhatIsDueALittleEarlyIsClaimedWithItsTimerAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, w := newFakeStore(), taking(time.Millisecond)
		d := begin(options(s, w, 100, testRoute("a", 2)))
		synctest.Wait()
		s.put("a", 0, 1)
		s.entries[0].at = time.Now().Add(300 * time.Microsecond)
		d.Due(keys.Partition{Prefix: "a"}, []string{"a:m:t:0"}, "me")
		after(400 * time.Microsecond)
		if w.count() != 1 || len(s.expired) != 2 || s.expired[0] != s.expired[1] {
			t.Errorf("%d began; expired %q", w.count(), s.expired)
		}
		drain(t, d)
	})
}

func TestExpectedEventsAreForgotten(t *testing.T) {
	var e expected
	at := time.Now()
	for i := range 1000 {
		e.add(fmt.Sprint(i), at.Add(time.Duration(i)*time.Millisecond))
	}
	if n := len(e.at); n > 260 || len(e.order) != n {
		t.Errorf("%d are expected, %d in order", n, len(e.order))
	}
	end := at.Add(999 * time.Millisecond)
	if e.take("700", end) || !e.take("999", end) || e.take("999", end) {
		t.Error("others are expected than those of the last 250 ms, once each")
	}
}
