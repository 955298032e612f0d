package dispatch

import (
	"slices"
	"sync"
	"time"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/route"
)

// routeQueue claims the due notices of one route, runs the handler for them and settles the results. mu guards the
// fields below it.
type routeQueue struct {
	d     *Dispatcher
	r     *route.Route
	share share // guarded by the total
	// These have their own locks.
	inFlight *inFlight
	gate     *gate
	keys     *serviceKeys
	attempts *attempts // has no lock

	mu        sync.Mutex
	shards    shardQueues
	parts     int // into which the load is divided: see settlesEvery
	turn      int // the shard whose failed calls are retried first
	slots     slots
	hints     hints
	soon      bool // claimSoon's goroutine has not begun
	backlog   backlog
	takeovers []takeover
	ahead     ahead
	closed    bool
}

func newRouteQueue(d *Dispatcher, r *route.Route) *routeQueue {
	q := &routeQueue{d: d, r: r,
		slots: newSlots(r.Slots()), backlog: newBacklog(d.o.Shards.Places()), inFlight: newInFlight(d.o.Fleet)}
	q.gate = newGate(d, r, q)
	q.keys = &serviceKeys{logger: d.o.Logger, route: r.Name, queue: q}
	q.attempts = &attempts{d: d, r: r, handler: d.o.Handler, queue: q, shards: &q.shards, inFlight: q.inFlight, gate: q.gate, keys: q.keys,
		stop: make(chan struct{})}
	q.share.queue, q.share.weight = q, max(r.Weight, 1)
	q.parts = d.o.Shards.Places()
	q.grow(d.o.Shards.Places())
	return q
}

// grow adds queues for new shards.
func (q *routeQueue) grow(shards int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	list := slices.Clone(q.shards.all())
	for shard := len(list); shard < shards; shard++ {
		list = append(list, newShardQueue(q, shard))
	}

	q.backlog.grow(len(list))
	q.shards.p.Store(&list)
}

func (q *routeQueue) hint(key string, t trigger) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.hints.last = time.Now()
	shard := q.d.o.Shards.Shard(key)
	if q.shards.at(shard).paused || q.closed || !q.hints.add(key, t, q.slots.room()+q.slots.looking) {
		// Its event is lost: sweep as soon as a slot is free, without the grace.
		q.backlog.ask(shard, wantDue)
		return q.slots.all == 0 // without slots here, other instances handle the event: no hint is dropped
	}

	q.claimSoon()
	return true
}

// claimSoon calls claimMore in a goroutine of its own, so that the listener first passes on the events that Redis sent
// together. Claimed at once, the first of them would get a call of its own, and the others would wait for its reply.
// The caller holds mu.
func (q *routeQueue) claimSoon() {
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
func (q *routeQueue) hintFirst(shard int, keys []string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.shards.at(shard).paused || q.closed || q.slots.all == 0 || !q.hints.putFirst(keys, triggerHint) {
		q.backlog.ask(shard, wantDue)
	}

	q.claimMore()
}

func (q *routeQueue) askSweep(shard int, w want) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.backlog.ask(shard, w)
	q.claimMore()
}

func (q *routeQueue) setSlots(n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.slots.resize(n)
	q.slots.ahead = q.ahead.size(n)
	q.claimMore()
}

func (q *routeQueue) room(shard int) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.shards.at(shard).paused || q.closed {
		return 0
	}

	return max(q.slots.free-len(q.hints.waiting), 0)
}

func (q *routeQueue) paused(shard int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.shards.at(shard).paused || q.closed
}

func (q *routeQueue) setPaused(paused func(p keys.Partition) bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, l := range q.shards.all() {
		p := paused(partition(q.r, l.shard))
		if l.paused && !p {
			q.backlog.ask(l.shard, wantDue)
		}

		l.setPaused(p, time.Now())
	}

	q.claimMore()
}

// awake ends the pause of all shards after failed claims.
func (q *routeQueue) awake() {
	for _, l := range q.shards.all() {
		l.health.awake()
	}
}

// addRunning counts attempts without slots.
func (q *routeQueue) addRunning(n int) {
	q.mu.Lock()
	q.slots.running += n
	q.mu.Unlock()
}

func (q *routeQueue) isClosed() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.closed
}

// running returns the number of attempts that are not settled yet.
func (q *routeQueue) running() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.slots.running
}

func (q *routeQueue) close() {
	for _, l := range q.shards.all() {
		l.health.stop()
	}

	q.mu.Lock()
	q.closed, q.takeovers = true, nil
	q.hints.drop()
	q.gate.close()
	ready := q.ahead.ready.drop()
	q.mu.Unlock()
	q.attempts.releaseAll(ready, notice.ReasonShutdown)
}

// wake claims as many notices as possible.
func (q *routeQueue) wake() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.claimMore()
}

// freeSlots frees slots and continues claiming, first for routes that wait for the total and hold
// less of it.
func (q *routeQueue) freeSlots(f freed) {
	waiting := q.d.total.give(&q.share, f.slots)
	q.mu.Lock()
	q.slots.release(f)
	q.mu.Unlock()
	self := false
	for _, w := range waiting {
		self = self || w == &q.share
		w.queue.wake()
	}

	if !self {
		q.wake()
	}
}

// claimMore starts claim calls as long as slots are free and notices wait to be claimed. Some slots are reserved for
// hints, so that a backlog does not delay notices that are due now. The caller holds mu.
func (q *routeQueue) claimMore() {
	for q.slots.room() > 0 && !q.closed && q.openShards() && !q.keys.missing() {
		if !q.claimSome() {
			return
		}
	}
}

// claimSome starts one claim call, and reports whether it did.
func (q *routeQueue) claimSome() (begun bool) {
	if q.slots.sweepCalls < maxCalls {
		if l := q.owed(); l != nil {
			return q.repeatCall(l)
		}
		if i := slices.IndexFunc(q.takeovers, func(t takeover) bool { return q.isOpen(t.shard) }); i >= 0 {
			return q.claimTaken(i)
		}
		if q.claimWaiting() {
			return true
		}
	}

	if hinted := min(len(q.hints.waiting), q.slots.room()); hinted > 0 && q.slots.mayCall(q.slots.hintCalls, hinted) {
		return q.claimHinted()
	}

	return q.claimSwept()
}

// claimWaiting claims notices whose hosts have free slots, by key. The caller holds mu.
func (q *routeQueue) claimWaiting() bool {
	list, shard := q.gate.claim(min(q.slots.room(), maxBatch), q.isOpen, func(n int) int { return q.d.total.take(&q.share, n) })
	if len(list) == 0 {
		return false
	}

	c := call{kind: kindPostponed, trigger: triggerSweep, shard: shard, token: q.d.token(), n: len(list), begun: time.Now(),
		waiters: map[string]*waiter{}}
	for _, x := range list {
		c.keys = append(c.keys, x.key)
		c.waiters[x.key] = x
	}

	c.counted = true

	q.begin(c)
	return true
}

func (q *routeQueue) claimHinted() bool {
	shards := q.d.o.Shards
	if len(q.shards.all()) == 1 {
		shards = nil
	}

	n, before := min(q.slots.room(), maxBatch), q.hints.waiting
	take := n
	if !q.hints.sorted(n) {
		take = maxSorted
	}

	hinted, t, shard := q.hints.take(take, shards)
	got := q.d.total.take(&q.share, min(n, len(hinted)))
	switch {
	case got == 0:
		q.hints.waiting = before
		return false
	case got < len(hinted) && take == n: // a call with more keys than slots would sort them
		q.hints.waiting = before
		hinted, t, shard = q.hints.take(got, shards)
	}

	q.begin(call{trigger: t, shard: shard, token: q.d.token(), n: got, keys: hinted, begun: time.Now()})
	return true
}

func (q *routeQueue) claimSwept() bool {
	grace := time.Duration(q.d.grace.Load())
	room := q.slots.forSweep(q.slots.kept(grace > 0, q.hints.expected(), q.r.Target.Kind == route.KindFixed))
	if room <= 0 || !q.slots.mayCall(q.slots.sweepCalls, room) {
		return false
	}

	shard, asked := q.backlog.next(q.isOpen)
	if !asked {
		return false
	}

	n := q.d.total.take(&q.share, min(room, maxBatch))
	if n == 0 {
		return false
	}

	w, newest := q.backlog.begin(shard)
	if w == wantDue {
		grace = 0
	}

	q.begin(call{kind: kindSweep, trigger: triggerSweep, shard: shard, token: q.d.token(), n: n, asked: n, want: w, grace: grace,
		newest: newest, from: q.backlog.shards[shard].from,
		begun: time.Now()})
	return true
}

// repeatCall retries the first failed call of a shard; see unanswered.
func (q *routeQueue) repeatCall(l *shardQueue) bool {
	n := q.d.total.take(&q.share, min(q.slots.room(), l.unanswered.wants()))
	if n == 0 {
		return false
	}

	c := l.unanswered.take(n)
	c.again = true
	// A call with keys is sent again: for the same token it returns the same claims. The claims of any other call, such
	// as a sweep, are searched for by the token.
	if c.keys == nil {
		c.rounds++
		c.kind = kindRecover
	}

	q.begin(c)
	return true
}
