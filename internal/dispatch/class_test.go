package dispatch

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/store"
)

// Claims that wait for a handler are started in order of their classes; of ten starts each later class has one.
func TestReadyClaimsStartByClass(t *testing.T) {
	var r aheadClaims
	from := time.Now()
	for i := range 30 {
		n := &notice.Notice{AttemptsMade: i % 3}
		if i%3 == 2 {
			n.Endings = 1
		}
		r.add(job{claim: &store.Claim{Notice: n}, at: from.Add(time.Duration(i) * time.Second)})
	}
	var classes []notice.Class
	for range 10 {
		j, ok := r.next()
		if !ok {
			t.Fatal("nothing waits")
		}
		classes = append(classes, j.claim.Class())
	}
	if want := []notice.Class{0, 0, 0, 0, 0, 0, 0, 0, 1, 2}; !slices.Equal(classes, want) {
		t.Errorf("classes %v, want %v", classes, want)
	}
	if at := r.oldest(); !at.Equal(from.Add(4 * time.Second)) { // of retries, of which one has started
		t.Errorf("the oldest came at %s", at.Sub(from))
	}
	if late := r.late(from.Add(7 * time.Second)); len(late) != 3 || r.n != 17 {
		t.Errorf("%d are late, %d are left", len(late), r.n)
	}
	if all := r.drop(); len(all) != 17 || r.n != 0 {
		t.Errorf("%d were left, %d are", len(all), r.n)
	}
	if _, ok := r.next(); ok {
		t.Error("one starts after drop")
	}
}

// A first attempt that comes while a storm of retries takes all slots starts when the next handlers end, although the hints of
// the retries came before its own. Retries are not starved.
func TestFirstAttemptPassesAStormOfRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const slots, takes = 8, 20 * time.Millisecond
		s := newFakeStore()
		began := map[string]time.Time{}
		var mu sync.Mutex
		w := newWork(func(_ context.Context, n *notice.Notice) notice.Result {
			mu.Lock()
			began[n.Key] = time.Now()
			mu.Unlock()
			time.Sleep(takes)
			return notice.DeliveredResult(200)
		})
		s.attempts = 1
		s.put("a", 0, 2000)
		d := begin(options(s, w, 512, testRoute("a", slots)))
		key := func(i int) string { return fmt.Sprintf("a:m:t:%d", i) }
		hint := func(from, to int) {
			for i := from; i < to; i++ {
				d.Expired(d.queues["a"].r, key(i))
			}
		}
		hint(0, 2000)
		after(5 * takes)

		s.attempts = 0
		s.put("a", 0, 4)
		hint(2000, 2004)
		from := time.Now()
		after(20 * takes)
		mu.Lock()
		for i := 2000; i < 2004; i++ {
			if late := began[key(i)].Sub(from); began[key(i)].IsZero() || late > 3*takes {
				t.Errorf("%s began %s after its event", key(i), late)
			}
		}
		if n := len(began); n < 20*slots {
			t.Errorf("%d of %d began", n, 25*slots)
		}
		mu.Unlock()
		for len(began) < 2004 {
			d.SweepDue(keys.Partition{Prefix: "a"})
			after(takes)
		}
		drain(t, d)
		quiet(t, d)
	})
}

// A host's free slot is taken by the waiting first attempt before retries that are due earlier, and one of ten by a retry.
func TestFreedSlotOfAHostIsTakenByClass(t *testing.T) {
	w := newWaiting()
	from := time.Now()
	for i := range 20 {
		class := notice.ClassRetry
		if i >= 10 {
			class = notice.ClassFirst
		}
		w.add(&waiter{key: string(rune('a' + i)), class: class, due: from.Add(time.Duration(i) * time.Second), host: "h:80"})
	}
	open := func(int) bool { return true }
	var taken string
	for range 11 {
		list, _ := w.take(1, open, func(string) int { return 100 })
		taken += list[0].key
	}
	if want := "klmnopqrast"; taken != want {
		t.Errorf("taken %s, want %s", taken, want)
	}
}

// beginWithHints returns a Dispatcher that has claimed a retry and has just received hints of n notices together, so that a claim call
// has more of them than slots.
func beginWithHints(s *fakeStore, w Handler, n int, claim error) *Dispatcher {
	d := begin(options(s, w, 512, testRoute("a", 8)))
	synctest.Wait() // for the sweep at the beginning
	s.claim = claim
	d.queues["a"].plan.hints.claimed([]store.Claim{{Notice: &notice.Notice{AttemptsMade: 1}}})
	hintTogether(d, s, n)
	return d
}

// hintTogether adds n notices, and gives d their hints together.
func hintTogether(d *Dispatcher, s *fakeStore, n int) {
	s.put("a", 0, n)
	q := d.queues["a"]
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := range n {
		q.plan.hints.add(fmt.Sprintf("a:m:t:%d", i), triggerEvent, q.plan.slots.room())
	}

	q.claimMore()
}

// A route that has claimed first attempts only claims as many hints as it gets slots, without sorting, also if fewer slots than its
// own are free in the instance.
func TestFirstAttemptsAloneAreNotSorted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, w := newFakeStore(), taking(20*time.Millisecond)
		d := begin(options(s, w, 3, testRoute("a", 8)))
		synctest.Wait()
		hintTogether(d, s, 40)
		after(2 * time.Second)
		if n := w.count(); n != 40 || slices.ContainsFunc(s.calls, func(c string) bool { return strings.HasPrefix(c, "sorted") }) {
			t.Errorf("%d of 40 handled; calls %v", n, s.calls)
		}
		drain(t, d)
		quiet(t, d)
	})
}

// Hints beyond the slots are sorted in one call. Later calls claim the first attempts among them without sorting.
func TestHintsAreSortedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, w := newFakeStore(), taking(20*time.Millisecond)
		d := beginWithHints(s, w, 300, nil)
		after(2 * time.Second)
		sorted := 0
		for _, c := range s.calls {
			if strings.HasPrefix(c, "sorted") {
				sorted++
			}
		}
		if sorted != 1 || w.count() != 300 {
			t.Errorf("%d handled, %d of %d calls sorted hints, want one", w.count(), sorted, len(s.calls))
		}
		drain(t, d)
		quiet(t, d)
	})
}

// Hints beyond the slots are sorted only while the route claims notices of later classes too: sorting costs Redis a look at each key.
func TestHintsAreSortedAfterClaimsOfLaterClasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h hints
		for i := range 3 {
			h.add(fmt.Sprintf("a:m:t:%d", i), triggerEvent, 8)
		}
		claimed := func(n notice.Notice) { h.claimed([]store.Claim{{Notice: &notice.Notice{}}, {Notice: &n}}) }
		claimed(notice.Notice{})
		if !h.sorted(2) {
			t.Error("first attempts alone need sorting")
		}
		for _, later := range []notice.Notice{{AttemptsMade: 1}, {Endings: 1}, {Replay: "job"}} {
			claimed(later)
			claimed(notice.Notice{})
			time.Sleep(sortsFor)
			if h.sorted(2) || !h.sorted(3) {
				t.Errorf("after %+v: sorted", later)
			}
			if time.Sleep(time.Nanosecond); !h.sorted(2) {
				t.Errorf("%+v: still sorted after %s", later, sortsFor)
			}
		}
	})
}

// The reply to a call that sorts hints is lost. Its claims are found by its token, and each notice is handled once.
func TestLostReplyOfSortedHints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, w := newFakeStore(), taking(10*time.Millisecond)
		d := beginWithHints(s, w, 40, errUnanswered)
		synctest.Wait()
		if !slices.ContainsFunc(s.calls, func(c string) bool { return strings.HasPrefix(c, "sorted") }) {
			t.Fatalf("calls %v", s.calls)
		}
		s.do(func() { s.claim = nil })
		after(time.Minute)
		for key, n := range s.won {
			if n != 1 {
				t.Errorf("%s was won %d times", key, n)
			}
		}
		if w.count() != 40 || !slices.ContainsFunc(s.calls, func(c string) bool { return strings.HasPrefix(c, "recover") }) {
			t.Errorf("%d of 40 handled; calls %v", w.count(), s.calls)
		}
		drain(t, d)
		quiet(t, d)
	})
}
