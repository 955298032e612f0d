package dispatch

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/store"
)

// oneEndPerMillisecond ends one attempt per millisecond.
func oneEndPerMillisecond() *work {
	var n atomic.Int64
	return newWork(func(context.Context, *notice.Notice) notice.Result {
		time.Sleep(time.Duration(n.Add(1)) * time.Millisecond)
		return notice.DeliveredResult(200)
	})
}

// Attempts that end shortly after one another are settled together. A push is settled at once,
// since consumers wait for it.
func TestSettlesOfASteadyLoadAreBatched(t *testing.T) {
	for _, c := range []struct {
		kind                   route.Kind
		parts, shards, settles int
	}{{route.KindLog, 1, 1, 3}, {route.KindNotice, 1, 1, 3}, {route.KindFixed, 1, 1, 3}, {route.KindNotice, 2, 1, 2},
		{route.KindNotice, 6, 6, 2},
		{route.KindNotice, 1000, 1, 2}, {route.KindNotice, 1, 12, 3}, {route.KindList, 1, 1, 8}, {route.KindStream, 48, 6, 8}} {
		t.Run(fmt.Sprintf("%s, %d parts, %d shards including old ones", c.kind, c.parts, c.shards), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newFakeStore()
				s.put("a", 0, 8)
				r := testRoute("a", 16)
				r.Target.Kind = c.kind
				o := options(s, oneEndPerMillisecond(), 16, r)
				o.Shards = shards{n: c.shards}
				d := begin(o)
				d.SetParts(c.parts)
				time.Sleep(8*time.Millisecond + mostSettleIntervals*settleInterval)
				synctest.Wait()
				s.do(func() {
					if s.settles != c.settles {
						t.Errorf("%d settles of 8 attempts, want %d", s.settles, c.settles)
					}
				})
				drain(t, d)
			})
		})
	}
}

// While the notices of a sequence wait for one another, each settle is sent at once, and the next notice is claimed
// without its wake message.
func TestNextNoticeOfASequenceWaitsForNoInterval(t *testing.T) {
	for _, woke := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := newFakeStore()
			s.woke = woke
			s.put("a", 0, 8)
			r := testRoute("a", 16)
			r.Order = route.OrderSkip
			d := begin(options(s, oneEndPerMillisecond(), 16, r))
			synctest.Wait()
			s.put("a", 0, 1)
			after(17*time.Millisecond + 2*settleInterval)
			s.do(func() {
				settles, claimed := map[bool]int{false: 3, true: 9}[woke], map[bool]int{false: 0, true: 1}[woke]
				if s.settles != settles || s.won["a:m:t:8"] != claimed {
					t.Errorf("woken: %v: %d settles, want %d; the ninth notice was claimed %d times, want %d", woke, s.settles, settles,
						s.won["a:m:t:8"], claimed)
				}
			})
			drain(t, d)
		})
	}
}

// A drain waits for no settle interval.
func TestDrainSettlesWithoutInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeStore()
		s.put("a", 0, 2)
		d := begin(options(s, oneEndPerMillisecond(), 8, testRoute("a", 8)))
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		if n := d.InFlight("a"); n != 1 {
			t.Fatalf("%d attempts wait for their settle, want the second", n)
		}
		from := time.Now()
		time.AfterFunc(0, func() { d.SetParts(8) }) // has no effect during a drain
		drain(t, d)
		if took := time.Since(from); took != 0 {
			t.Errorf("it took %v", took)
		}
	})
}

// freeing is the queue of attempts without slots. It calls a function when slots are freed.
type freeing struct {
	attemptQueue
	free func(f freed)
}

func (q freeing) freeSlots(f freed) { q.free(f) }

// attemptsOf returns the attempts of a route that claims nothing, with one notice in flight and its settlement.
func attemptsOf(s *fakeStore, free func(f freed)) (*Dispatcher, *attempts, finished) {
	s.put("a", 0, 1)
	d := New(options(s, taking(0), 10, testRoute("a", 4)))
	a := d.queues["a"].attempts
	a.queue = freeing{a.queue, free}
	won := []store.Claim{store.Reported(store.Found{Notice: s.entries[0].n})}
	a.inFlight.add(won, job{attempts: a})
	d.wg.Add(1)
	return d, a, finished{slot: true, trigger: triggerSweep,
		Settlement: End(a.r, &won[0], notice.RetryResult(notice.ReasonStatus, ""), notice.Attempt{At: time.Now()}, notice.Waits{})}
}

// The reply to a settle is recorded before its slot is freed: a call with that slot may claim the notice again.
func TestSettledNoticeIsNotInFlightWhenItsSlotIsFreed(t *testing.T) {
	var a *attempts
	var got []freed
	d, a, e := attemptsOf(newFakeStore(), func(f freed) {
		got = append(got, f)
		if n := len(a.inFlight.held); n != 0 {
			t.Errorf("%d in flight", n)
		}
	})
	a.settle(a.shards.at(0), []finished{e})
	if want := (freed{slots: 1, swept: 1, running: 1}); len(got) != 1 || got[0] != want {
		t.Errorf("freed %+v, want %+v", got, want)
	}
	drain(t, d)
}

// Redis has lost a claim, and the notice was claimed again during its attempt. The result is settled under the second claim,
// whose slot is freed at once.
func TestResultIsSettledUnderTheLaterClaim(t *testing.T) {
	s := newFakeStore()
	var got []freed
	d, a, e := attemptsOf(s, func(f freed) { got = append(got, f) })
	later := *s.entries[0].n
	later.AttemptsMade = 7 // a claim that differs
	a.inFlight.add([]store.Claim{store.Reported(store.Found{Notice: &later})}, job{attempts: a, trigger: triggerEvent})
	list, _ := a.settleInFlight([]finished{e}, []store.Settled{{Stale: true}})
	d.wg.Wait() // for the second settle
	want := []freed{{slots: 1, running: 1}, {slots: 1, swept: 1, running: 1}}
	if len(list) != 0 || !slices.Equal(got, want) {
		t.Errorf("%d ended, freed %+v; want none, and %+v", len(list), got, want)
	}
	if len(s.ended) != 1 || len(a.inFlight.held) != 0 {
		t.Errorf("settled %d times, %d in flight", len(s.ended), len(a.inFlight.held))
	}
	drain(t, d)
}
