package dispatch

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/notice"
	"notifier/internal/route"
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
