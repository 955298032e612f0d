package dispatch

import (
	"slices"
	"sync"
	"time"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/route"
)

// readyQueue decides when notices of one route are claimed, and how many. Events, hints and sweeps ask for claims. It starts a
// claim call for them while slots are free, and keeps the claims that wait for a handler.
//
// mu guards the fields below it. Locks are taken in this order: that of readyQueue, that of gate, one of total, health and
// Hosts. No lock is taken under those of inFlight, delays, serviceKeys and shortages.
type readyQueue struct {
	d      *Dispatcher
	r      *route.Route
	shards *shardQueues
	// These have their own locks, or none.
	inFlight *inFlight
	gate     *gate
	keys     *serviceKeys
	attempts *attempts

	mu     sync.Mutex
	plan   plan
	parts  int  // into which the load is divided: see settlesEvery
	soon   bool // claimSoon's goroutine has not begun
	ahead  ahead
	closed bool
}

func newReadyQueue(d *Dispatcher, r *route.Route) *readyQueue {
	q := &readyQueue{d: d, r: r, shards: &shardQueues{}, inFlight: newInFlight(d.o.Fleet)}
	q.gate = newGate(d, r, q)
	q.plan = plan{d: d, r: r, gate: q.gate, shards: q.shards, share: share{queue: q, weight: max(r.Weight, 1)},
		slots: newSlots(r.Slots()), backlog: newBacklog(d.o.Shards.Places())}
	q.keys = &serviceKeys{logger: d.o.Logger, route: r.Name, queue: q}
	q.attempts = &attempts{d: d, r: r, handler: d.o.Handler, queue: q, shards: q.shards, inFlight: q.inFlight, gate: q.gate, keys: q.keys,
		stop: make(chan struct{})}
	q.parts = d.o.Shards.Places()
	q.grow(d.o.Shards.Places())
	return q
}

// grow adds queues for new shards.
func (q *readyQueue) grow(shards int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	list := slices.Clone(q.shards.all())
	for shard := len(list); shard < shards; shard++ {
		list = append(list, newShardQueue(q, shard))
	}

	q.plan.backlog.grow(len(list))
	q.shards.p.Store(&list)
}

func (q *readyQueue) hint(key string, t trigger) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.plan.hints.last = time.Now()
	shard := q.d.o.Shards.Shard(key)
	if q.shards.at(shard).paused || q.closed || !q.plan.hints.add(key, t, q.plan.slots.room()+q.plan.slots.looking) {
		// Its event is lost: sweep as soon as a slot is free, without the grace.
		q.plan.backlog.ask(shard, wantDue)
		return q.plan.slots.all == 0 // without slots here, other instances handle the event: no hint is dropped
	}

	q.claimSoon()
	return true
}

// claimSoon calls claimMore in a separate goroutine, so that the listener first passes on the events that Redis sent
// together. Claimed at once, the first of them would get a separate call, and the others would wait for its reply.
// The caller holds mu.
func (q *readyQueue) claimSoon() {
	if q.soon {
		return
	}

	q.soon = true
	q.d.wg.Add(1)
	go func() {
		defer q.d.wg.Done()
		q.mu.Lock()
		defer q.mu.Unlock()
		q.soon = false
		q.claimMore()
	}()
}

// hintFirst adds hints of first attempts before all others.
func (q *readyQueue) hintFirst(shard int, keys []string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.shards.at(shard).paused || q.closed || q.plan.slots.all == 0 || !q.plan.hints.putFirst(keys, triggerHint) {
		q.plan.backlog.ask(shard, wantDue)
	}

	q.claimMore()
}

func (q *readyQueue) askSweep(shard int, w want) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.plan.backlog.ask(shard, w)
	q.claimMore()
}

func (q *readyQueue) setSlots(n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.plan.slots.resize(n)
	q.plan.slots.ahead = q.ahead.size(n)
	q.claimMore()
}

func (q *readyQueue) room(shard int) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.shards.at(shard).paused || q.closed {
		return 0
	}

	return max(q.plan.slots.free-len(q.plan.hints.waiting), 0)
}

func (q *readyQueue) paused(shard int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.shards.at(shard).paused || q.closed
}

func (q *readyQueue) setPaused(paused func(p keys.Partition) bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, l := range q.shards.all() {
		p := paused(partition(q.r, l.shard))
		if l.paused && !p {
			q.plan.backlog.ask(l.shard, wantDue)
		}

		l.setPaused(p, time.Now())
	}

	q.claimMore()
}

// addRunning counts attempts without slots.
func (q *readyQueue) addRunning(n int) {
	q.mu.Lock()
	q.plan.slots.running += n
	q.mu.Unlock()
}

func (q *readyQueue) isClosed() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.closed
}

// running returns the number of attempts that are not settled yet.
func (q *readyQueue) running() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.plan.slots.running
}

func (q *readyQueue) close() {
	for _, l := range q.shards.all() {
		l.health.stop()
	}

	q.mu.Lock()
	q.closed, q.plan.takeovers = true, nil
	q.plan.hints.drop()
	q.gate.close()
	waiting := q.ahead.claims.drop()
	q.mu.Unlock()
	q.attempts.releaseAll(waiting, notice.ReasonShutdown)
}

// wake claims as many notices as possible.
func (q *readyQueue) wake() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.claimMore()
}

// freeSlots frees slots and continues claiming, first for routes that wait for the total and hold
// less of it.
func (q *readyQueue) freeSlots(f freed) {
	waiting := q.d.total.give(&q.plan.share, f.slots)
	q.mu.Lock()
	q.plan.slots.release(f)
	q.mu.Unlock()
	self := false
	for _, w := range waiting {
		self = self || w == &q.plan.share
		w.queue.wake()
	}

	if !self {
		q.wake()
	}
}

// claimMore starts claim calls as long as slots are free and notices wait to be claimed. Some slots are reserved for
// hints, so that a backlog does not delay notices that are due now. The caller holds mu.
func (q *readyQueue) claimMore() {
	for q.plan.slots.room() > 0 && !q.closed && q.plan.openShards() && !q.keys.missing() {
		c, ok := q.plan.next()
		if !ok {
			return
		}

		q.begin(c)
	}
}

// begin takes the slots of a call and sends it in its own goroutine. The caller holds mu.
func (q *readyQueue) begin(c call) {
	q.plan.slots.begin(c.trigger, c.n)
	if c.finds() {
		q.inFlight.beginFinds()
	}

	sent := &claimCall{call: c, q: q}
	q.d.wg.Add(1)
	go func() {
		defer q.d.wg.Done()
		sent.run()
	}()
}
