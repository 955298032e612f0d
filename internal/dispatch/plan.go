package dispatch

import (
	"slices"
	"time"

	"notifier/internal/route"
)

// plan chooses the next claim call of a route: it holds the requests for claims, and the slots for them. The lock of readyQueue
// guards it.
type plan struct {
	d      *Dispatcher
	r      *route.Route
	gate   *gate
	shards *shardQueues
	share  share // guarded by the total

	slots     slots
	hints     hints
	backlog   backlog
	takeovers []takeover
	turn      int // the shard whose failed calls are retried first
}

// take takes up to n slots of the total.
func (p *plan) take(n int) int { return p.d.total.take(&p.share, n) }

// next takes the slots of the next claim call, and returns it; ok is false if there is nothing to claim, or no slot.
func (p *plan) next() (c call, ok bool) {
	if p.slots.sweepCalls < maxCalls {
		if l := p.owed(); l != nil {
			return p.repeatCall(l)
		}
		if i := slices.IndexFunc(p.takeovers, func(t takeover) bool { return p.isOpen(t.shard) }); i >= 0 {
			return p.claimTaken(i)
		}
		if c, ok = p.claimWaiting(); ok {
			return c, true
		}
	}

	if hinted := min(len(p.hints.waiting), p.slots.room()); hinted > 0 && p.slots.mayCall(p.slots.hintCalls, hinted) {
		return p.claimHinted()
	}

	return p.claimSwept()
}

// claimWaiting claims notices whose hosts have free slots, by key.
func (p *plan) claimWaiting() (c call, ok bool) {
	list, shard := p.gate.claim(min(p.slots.room(), maxBatch), p.isOpen, p.take)
	if len(list) == 0 {
		return call{}, false
	}

	c = call{kind: kindPostponed, trigger: triggerSweep, shard: shard, token: p.d.token(), n: len(list), begun: time.Now(),
		waiters: map[string]*waiter{}, counted: true}
	for _, x := range list {
		c.keys = append(c.keys, x.key)
		c.waiters[x.key] = x
	}

	return c, true
}

func (p *plan) claimHinted() (c call, ok bool) {
	shards := p.d.o.Shards
	if len(p.shards.all()) == 1 {
		shards = nil
	}

	n, before := min(p.slots.room(), maxBatch), p.hints.waiting
	take := n
	if !p.hints.sorted(n) {
		take = maxSorted
	}

	hinted, t, shard := p.hints.take(take, shards)
	got := p.take(min(n, len(hinted)))
	switch {
	case got == 0:
		p.hints.waiting = before
		return call{}, false
	case got < len(hinted) && take == n: // a call with more keys than slots would sort them
		p.hints.waiting = before
		hinted, t, shard = p.hints.take(got, shards)
	}

	return call{trigger: t, shard: shard, token: p.d.token(), n: got, keys: hinted, begun: time.Now()}, true
}

func (p *plan) claimSwept() (c call, ok bool) {
	grace := time.Duration(p.d.grace.Load())
	room := p.slots.forSweep(p.slots.kept(grace > 0, p.hints.expected(), p.r.Target.Kind == route.KindFixed))
	if room <= 0 || !p.slots.mayCall(p.slots.sweepCalls, room) {
		return call{}, false
	}

	shard, asked := p.backlog.next(p.isOpen)
	if !asked {
		return call{}, false
	}

	n := p.take(min(room, maxBatch))
	if n == 0 {
		return call{}, false
	}

	w, newest := p.backlog.begin(shard)
	if w == wantDue {
		grace = 0
	}

	return call{kind: kindSweep, trigger: triggerSweep, shard: shard, token: p.d.token(), n: n, asked: n, want: w, grace: grace,
		newest: newest, from: p.backlog.shards[shard].from,
		begun: time.Now()}, true
}

// repeatCall retries the first failed call of a shard; see unanswered.
func (p *plan) repeatCall(l *shardQueue) (c call, ok bool) {
	n := p.take(min(p.slots.room(), l.unanswered.wants()))
	if n == 0 {
		return call{}, false
	}

	c = l.unanswered.take(n)
	c.again = true
	// A call with keys is sent again: for the same token it returns the same claims. The claims of any other call, such
	// as a sweep, are searched for by the token.
	if c.keys == nil {
		c.rounds++
		c.kind = kindRecover
	}

	return c, true
}

// remember keeps a reclaim until there are slots for it.
func (p *plan) remember(t takeover) {
	if len(p.takeovers) < maxTakeovers {
		p.takeovers = append(p.takeovers, t)
	}
}

// claimTaken continues one of the reclaims. Reclaimed notices are handled like those with an
// expired lease.
func (p *plan) claimTaken(i int) (c call, ok bool) {
	n := p.take(min(p.slots.room(), maxBatch))
	if n == 0 {
		return call{}, false
	}

	t := p.takeovers[i]
	p.takeovers = slices.Delete(p.takeovers, i, i+1)
	return call{kind: kindTakeover, trigger: triggerSweep, shard: t.shard, token: p.d.token(), n: n, asked: n, over: t,
		begun: time.Now()}, true
}

// regain takes slots for the notices in a late reply to a claim call: lend has freed the slots of that call. A slot is
// the right to run one attempt. regain takes next slots even if none is free, and at most others free slots. It returns
// the number of the free slots that it got.
func (p *plan) regain(t trigger, next, others int) int {
	p.d.total.force(&p.share, next) // an earlier attempt of these notices still runs here, see inFlight.add
	got := p.take(min(others, max(p.slots.room()-next, 0)))
	p.slots.free -= next + got
	p.slots.swept += t.swept(next + got)
	p.slots.running += next + others
	return got
}

// openShards updates the field open of all shards, and reports whether any shard is open. The route claims notices only
// from open shards: those without a pause and without failing or late calls to Redis.
func (p *plan) openShards() (some bool) {
	all := true
	for _, l := range p.shards.all() {
		// stuck: the reply to a claim call is late. Not ready: a claim has just failed, or a settle fails.
		l.open = !l.paused && l.stuck == 0 && l.health.ready()
		some, all = some || l.open, all && l.open
	}

	if all || len(p.hints.waiting) == 0 {
		return some
	}

	// Hints for closed shards are dropped if the shard is paused, or if another shard is open, which may need their
	// space. Sweeps find their notices later.
	p.hints.leave(func(key string) bool {
		l := p.shards.at(p.d.o.Shards.Shard(key))
		leave := l.paused || some && !l.open
		if leave {
			p.backlog.ask(l.shard, wantDue)
		}

		return leave
	})
	return some
}

// isOpen returns the state recorded by openShards.
func (p *plan) isOpen(shard int) bool { return p.shards.at(shard).open }

// owed returns the next shard, in turn, with a failed call to retry; nil if there is none.
func (p *plan) owed() *shardQueue {
	for i := range p.shards.all() {
		l := p.shards.at((p.turn + i) % len(p.shards.all()))
		if l.open && l.unanswered.wants() > 0 {
			p.turn = l.shard + 1
			return l
		}
	}
	return nil
}
