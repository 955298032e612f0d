package dispatch

import (
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/notice"
	"notifier/internal/store"
)

// gateFor returns a gate before a host.
func gateFor(b *busyHost) (*gate, *woken) {
	w := &woken{}
	d := &Dispatcher{o: Options{Handler: b}}
	return newGate(d, testRoute("a", 8), w), w
}

// wait adds settled notices that wait for a slot of their host.
func wait(g *gate, keys ...string) {
	list, done := make([]finished, len(keys)), make([]store.Settled, len(keys))
	for i, k := range keys {
		n := &notice.Notice{Key: k, Due: time.Now().Add(time.Duration(i) * time.Second)}
		e := &list[i]
		e.result = yielded("h:80")
		g.postpone(e)
		e.Settlement = store.Settlement{Claim: store.Claim{Notice: n}, Ending: store.EndPostponed, After: e.result.After}
		done[i].Score = "1"
	}

	g.rememberAll(list, done)
}

func anyShard(int) bool { return true }

// Notices for which the total has no slot wait on, and are counted as before.
func TestGateKeepsNoticesWithoutASlotOfTheTotal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, _ := gateFor(&busyHost{slots: 3})
		wait(g, "a:m:t:1", "a:m:t:2", "a:m:t:3", "a:m:t:4")
		list, _ := g.claim(10, anyShard, func(n int) int {
			if n != 3 {
				t.Errorf("%d slots of the total asked for, want 3, as the host has", n)
			}
			return 1
		})
		if len(list) != 1 || list[0].key != "a:m:t:1" {
			t.Fatalf("claimed %v, want the first one", list)
		}
		w := Waiting{By: map[notice.Held]int{}, Hosts: map[string]int{}}
		if g.count(&w); w.Hosts["h:80"] != 3 {
			t.Errorf("%v wait, want 3", w.Hosts)
		}
		again, _ := g.claim(10, anyShard, func(n int) int { return n })
		if len(again) != 2 { // the first one has not arrived: one of three slots is its own
			t.Errorf("claimed %d, want 2", len(again))
		}
	})
}

// A claim that has not waited leaves the slots of its host to waiting notices, until enough are free.
func TestGateLeavesSlotsToWaitingNotices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &busyHost{slots: 2}
		g, _ := gateFor(b)
		j := &job{claim: &store.Claim{Notice: &notice.Notice{Key: "a:m:t:9", AttemptsMade: 1}}}
		if host := g.yields(j); host != "" {
			t.Errorf("yields %s, for which nothing waits", host)
		}
		wait(g, "a:m:t:1", "a:m:t:2")
		if host := g.yields(j); host != "h:80" {
			t.Errorf("yields %q, want the host: first attempts wait for both slots", host)
		}
		b.slots = 3
		if host := g.yields(j); host != "" {
			t.Errorf("yields %s, which has a third slot", host)
		}
	})
}

// The queue is woken while notices wait, and no more after close.
func TestGateChecksHostsUntilItIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, w := gateFor(&busyHost{slots: 1})
		wait(g, "a:m:t:1")
		after(4 * waitingEvery)
		if n := w.n.Load(); n != 4 {
			t.Errorf("woken %d times, want 4", n)
		}
		g.close()
		wait(g, "a:m:t:2")
		after(time.Minute)
		if n := w.n.Load(); n != 4 || len(g.waiting.byKey) != 0 {
			t.Errorf("woken %d times, %d wait; want no change after close", n, len(g.waiting.byKey))
		}
	})
}
