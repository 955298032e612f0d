package dispatch

import (
	"slices"
	"testing"
)

// planOf returns the plan of a route with 40 slots and one open shard, which claims nothing by itself.
func planOf() (*plan, *shardQueue) {
	q := New(options(newFakeStore(), taking(0), 100, testRoute("a", 40))).queues["a"]
	l := q.shards.at(0)
	l.paused = false
	return &q.plan, l
}

// calls takes calls until there is none, and returns their kinds.
func (p *plan) calls() (list []kind, slots int) {
	p.openShards()
	for {
		c, ok := p.next()
		if !ok {
			return list, slots
		}
		p.slots.begin(c.trigger, c.n)
		list, slots = append(list, c.kind), slots+c.n
	}
}

// Failed calls come before reclaims, and those before hints. A sweep waits until fewer than maxCalls of other calls run.
func TestPlanTakesTheSourcesOfClaimsInOrder(t *testing.T) {
	p, l := planOf()
	p.backlog.ask(0, wantDue)
	p.hints.add("a:m:t:1", triggerEvent, 1)
	p.remember(takeover{holder: "dead"})
	l.unanswered.add(call{kind: kindSweep, asked: 2, n: 2})
	p.slots.resize(200) // more than the total
	kinds, slots := p.calls()
	if want := []kind{kindRecover, kindTakeover}; !slices.Equal(kinds, want) || slots != 100 {
		t.Errorf("calls %v for %d slots, want %v for the total of 100", kinds, slots, want)
	}
	p.d.total.give(&p.share, 98)
	p.slots.release(freed{slots: 98, swept: 98, running: 98})
	kinds, _ = p.calls()
	if want := []kind{kindKeys}; !slices.Equal(kinds, want) {
		t.Errorf("calls %v, want %v while %d others run", kinds, want, maxCalls)
	}
	p.slots.answered(triggerSweep, 98)
	kinds, _ = p.calls()
	if want := []kind{kindSweep}; !slices.Equal(kinds, want) {
		t.Errorf("calls %v, want %v", kinds, want)
	}
}

// A plan takes nothing from a shard that is paused, or whose reply is late.
func TestPlanLeavesClosedShards(t *testing.T) {
	p, l := planOf()
	for _, closed := range []func(){func() { l.paused = true }, func() { l.stuck = 1 }, l.health.settleFailed} {
		p.backlog.ask(0, wantDue)
		p.remember(takeover{holder: "dead"})
		closed()
		if kinds, slots := p.calls(); len(kinds) != 0 {
			t.Errorf("calls %v for %d slots", kinds, slots)
		}
		l.paused, l.stuck = false, 0
	}
}
