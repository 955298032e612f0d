package dispatch

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/keys"
	"notifier/internal/node"
	"notifier/internal/notice"
	"notifier/internal/store"
)

// twoShards are the options of two shards, the second of which hangs until the
// channel is closed.
func twoShards(s *fakeStore, h Handler, slots int) (Options, chan struct{}) {
	o := options(s, h, 100, testRoute("a", slots))
	o.Shards = shards{n: 2}
	s.slow, s.hangs = make(chan struct{}), 2
	return o, s.slow
}

func TestAShardThatHangsHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, w := newFakeStore(), taking(10*time.Millisecond)
		o, hang := twoShards(s, w, 8)
		s.put("a", 0, 40)
		s.put("a", 1, 40)
		d := begin(o)
		after(2 * time.Second) // less than a call may take
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
			t.Errorf("room for %d, want that for 8: what waits holds no slot", room)
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

// What a call has won that had lent its slots to others waits for slots like
// everything else.
func TestALateClaimTakesNoMoreSlotsThanThereAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, w := newFakeStore(), taking(3*time.Second)
		o, hang := twoShards(s, w, 4)
		d := New(o)
		s.put("a", 1, 4)
		d.SetPaused(func(p keys.Partition) bool { return p.Shard == 0 })
		after(slotsHeld + time.Millisecond)
		s.put("a", 0, 8)
		d.SetPaused(none)
		after(time.Millisecond)
		if w.top != 3 { // one slot is left to hints
			t.Errorf("%d of the healthy shard's run, want 3", w.top)
		}
		close(hang)
		after(time.Minute)
		if n := s.endings(); n[store.EndDelivered] != 12 || n[store.EndPostponed] == 0 {
			t.Errorf("%v, want 12 delivered, and some given back", n)
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

// A claim call that was never sent has won nothing: it is not looked for, and a
// shard whose node is back is claimed from at once.
func TestACallThatWasNotSentIsNotRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, w := newFakeStore(), taking(time.Millisecond)
		s.put("a", 0, 3)
		s.claim = fmt.Errorf("claim: %w", node.ErrAway)
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

// A settle that fails keeps its own shard from claiming, and no other.
func TestASettleThatFailsHoldsUpItsShardAlone(t *testing.T) {
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

// oneSettles is a store that takes no settle of one shard.
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
