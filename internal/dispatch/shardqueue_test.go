package dispatch

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/store"
	"notifier/internal/wire"
)

// withHangingShard returns the options for two shards, of which the second hangs until the channel is
// closed.
func withHangingShard(s *fakeStore, h Handler, slots int) (Options, chan struct{}) {
	o := options(s, h, 100, testRoute("a", slots))
	o.Shards = shards{n: 2}
	s.slow, s.hangs = make(chan struct{}), 2
	return o, s.slow
}

func TestHangingShardDoesNotDelayOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, w := newFakeStore(), taking(10*time.Millisecond)
		o, hang := withHangingShard(s, w, 8)
		s.put("a", 0, 40)
		s.put("a", 1, 40)
		d := begin(o)
		after(2 * time.Second) // below the timeout of a call
		if w.count() != 40 {
			t.Errorf("%d of the healthy shard's 40 were handled", w.count())
		}
		calls := 0
		for _, c := range s.calls {
			if c == "oldest a/1 7" || c == "newest a/1 7" {
				calls++
			}
		}
		if calls == 0 || calls > maxCalls {
			t.Errorf("%d calls wait for the shard that hangs, want %d at most: %v", calls, maxCalls, s.calls)
		}
		if room := d.Room(keys.Partition{Prefix: "a"}); room != 8 {
			t.Errorf("room for %d, want 8: waiting calls hold no slot", room)
		}
		close(hang)
		after(time.Second)
		if n := s.endings()[store.EndDelivered]; n != 80 {
			t.Errorf("%d of 80 were delivered, calls %v", n, s.calls)
		}
		quiet(t, d)
		drain(t, d)
	})
}

// slowObserver needs longer to count a claim than a claim call may hold its slots.
type slowObserver struct {
	nop
	counted chan struct{}
}

func (o slowObserver) Claim(notice.Source, notice.ClaimResult, int) {
	<-time.After(slotsHeld + slotsHeld/2)
	select {
	case o.counted <- struct{}{}:
	default:
	}
}

// The timer that lends slots may fire when its call has been answered. The race detector fails this
// test if the timer reads a field that the answer changes. The test needs real time: virtual time
// orders a timer after everything before it.
func TestLendingTimerSharesNoFieldWithItsCall(t *testing.T) {
	s := newFakeStore()
	s.put("a", 0, 1)
	counted := make(chan struct{}, 1)
	o := options(s, taking(0), 4, testRoute("a", 4))
	o.Shards, o.Observer = shards{n: 2}, slowObserver{counted: counted}
	d := begin(o)
	<-counted
	drain(t, d)
}

// withLateReply returns a dispatcher with 4 slots, which a call to shard 1 has lent to notices of shard 0. The call
// claims 4 notices, and is answered when hang is closed.
func withLateReply(s *fakeStore, h Handler, change func(*notice.Notice)) (d *Dispatcher, hang chan struct{}) {
	o, hang := withHangingShard(s, h, 4)
	d = New(o)
	s.put("a", 1, 4)
	for _, e := range s.entries {
		change(e.n)
	}

	d.SetPaused(func(p keys.Partition) bool { return p.Shard == 0 })
	after(slotsHeld + time.Millisecond)
	s.put("a", 0, 8)
	d.SetPaused(none)
	after(time.Millisecond)
	return d, hang
}

// The claims of a call that had lent its slots wait for slots like all others.
func TestLateClaimReplyDoesNotExceedSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, w := newFakeStore(), taking(3*time.Second)
		d, hang := withLateReply(s, w, func(*notice.Notice) {})
		if w.top != 3 { // one slot is left to hints
			t.Errorf("%d of the healthy shard's run, want 3", w.top)
		}
		close(hang)
		after(time.Minute)
		if n := s.endings(); n[store.EndDelivered] != 12 || n[store.EndPostponed] == 0 {
			t.Errorf("%v, want 12 delivered, and some released", n)
		}
		if w.top > 4 {
			t.Errorf("%d ran at once in 4 slots", w.top)
		}
		for _, e := range s.ended {
			if e.Ending == store.EndDelivered && e.Claim.AttemptsMade != 1 {
				t.Errorf("%s took %d attempts", e.Claim.Key, e.Claim.AttemptsMade)
			}
		}
		quiet(t, d)
		drain(t, d)
	})
}

// If a claim whose report is overdue is released for want of a slot, its attempt stays counted.
func TestReleasedClaimStillAwaitsItsReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, w := newFakeStore(), taking(3*time.Second)
		d, hang := withLateReply(s, w, func(n *notice.Notice) {
			n.AwaitsReport = true
			n.Add(notice.Attempt{Number: 1})
		})
		close(hang)
		after(time.Second) // the endings can be settled in two calls
		if n := s.endings(); n[store.EndHanded] == 0 || n[store.EndPostponed] != 0 {
			t.Errorf("%v, want some released without an end of the wait", n)
		}

		after(time.Minute)
		for _, e := range s.ended {
			if n := e.Claim; e.Claim.Shard == 1 && (n.AttemptsMade == 0 || len(n.Attempts) == 0) {
				t.Errorf("%s, %s: %d attempts", n.Key, e.Ending, n.AttemptsMade)
			}
		}

		quiet(t, d)
		drain(t, d)
	})
}

// A claim call that was never sent has no claims to recover, and a shard whose node is reachable
// again is claimed from at once.
func TestUnsentCallIsNotRecovered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, w := newFakeStore(), taking(time.Millisecond)
		s.put("a", 0, 3)
		s.claim = fmt.Errorf("claim: %w", wire.ErrAway)
		d := begin(options(s, w, 100, testRoute("a", 8)))
		after(10 * time.Second)
		s.do(func() { s.claim = nil })
		d.Awake()
		after(time.Millisecond + time.Millisecond/2)
		if w.count() != 3 {
			t.Errorf("%d of 3 began at once", w.count())
		}
		for _, c := range s.calls {
			if c[:7] == "recover" {
				t.Errorf("%v", s.calls)
				break
			}
		}
		after(time.Second)
		quiet(t, d)
		drain(t, d)
	})
}

// A failing settle stops the claims of its own shard only.
func TestFailingSettleStopsOnlyItsShard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeStore()
		f := &oneSettles{fakeStore: s, shard: 1}
		w := newWork(func(context.Context, *notice.Notice) notice.Result { return notice.DeliveredResult(200) })
		o := options(f, w, 100, testRoute("a", 8))
		o.Shards = shards{n: 2}
		s.put("a", 1, 1)
		d := begin(o)
		after(time.Second)
		s.put("a", 0, 20)
		s.put("a", 1, 20)
		d.Sweep(keys.Partition{Prefix: "a"})
		d.Sweep(keys.Partition{Prefix: "a", Shard: 1})
		after(time.Second)
		if w.count() != 21 {
			t.Errorf("%d were handled, want the first and the healthy shard's 20", w.count())
		}
		s.do(func() { f.shard = -1 })
		d.Awake()
		after(100 * time.Millisecond)
		if n := s.endings()[store.EndDelivered]; n != 41 {
			t.Errorf("%d of 41 delivered", n)
		}
		quiet(t, d)
		drain(t, d)
	})
}

// oneSettles is a store that rejects the settles of one shard.
type oneSettles struct {
	*fakeStore
	shard int
}

func (o *oneSettles) Settle(ctx context.Context, p keys.Partition, list []store.Settlement) ([]store.Settled, error) {
	var fails bool
	o.do(func() { fails = p.Shard == o.shard })
	if fails {
		return nil, errors.New("no")
	}
	return o.fakeStore.Settle(ctx, p, list)
}
