package dispatch

import (
	"slices"
	"sync"
	"time"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/route"
)

// routeQueue is one route's way through this process: it claims what is due as
// slots allow, has it handled, and settles it.
//
// Its parts have one task each, and know nothing of each other. They are guarded
// by mu where nothing else is said.
type routeQueue struct {
	d       *Dispatcher
	r       *route.Route
	handler Handler
	share   share         // guarded by the total
	hosts   Hosts         // the handler, if it limits calls to hosts; else nil
	stop    chan struct{} // closed when settles are given up

	mu        sync.Mutex
	shards    shardQueues
	turn      int // the shard whose unanswered calls come first
	slots     slots
	hints     hints
	backlog   backlog
	takeovers []takeover
	inHand    inHand
	ahead     ahead
	waiting   waiting
	postponed postponed
	closed    bool
}

func newRouteQueue(d *Dispatcher, r *route.Route) *routeQueue {
	q := &routeQueue{d: d, r: r, handler: d.o.Handler, stop: make(chan struct{}),
		slots: newSlots(r.Slots()), backlog: newBacklog(d.o.Shards.Places()), inHand: newInHand(), waiting: newWaiting()}
	q.hosts, _ = q.handler.(Hosts)
	q.share.queue = q
	q.grow(d.o.Shards.Places())
	return q
}

// grow makes queues for more shards.
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
	if q.shards.at(shard).paused || q.closed || !q.hints.add(key, t, q.slots.room()) {
		// Its event is spent: the next free slot need not wait for the grace.
		q.backlog.ask(shard, wantDue)
		return q.slots.all == 0 // all slots are other instances', who have heard it too: nothing is dropped
	}
	q.claimMore()
	return true
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

func (q *routeQueue) setPaused(paused func(p keys.Partition) bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, l := range q.shards.all() {
		p := paused(q.partition(l.shard))
		if l.paused && !p {
			q.backlog.ask(l.shard, wantDue)
		}
		l.setPaused(p, time.Now())
	}
	q.claimMore()
}

// awake ends the rests of all shards.
func (q *routeQueue) awake() {
	for _, l := range q.shards.all() {
		l.health.awake()
	}
}

// running is how many attempts are under way, settles included.
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
	q.waiting.drop()
	ready := q.ahead.ready
	q.ahead.ready = nil
	q.mu.Unlock()
	q.giveAllBack(ready, notice.ReasonShutdown)
}

// abandon gives up settles that Redis does not take.
func (q *routeQueue) abandon() { close(q.stop) }

// wake claims what is possible by now.
func (q *routeQueue) wake() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.claimMore()
}

// release frees slots and claims anew: for the routes that wait for the total
// before this one, if they hold less of it.
func (q *routeQueue) release(f freed) {
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

// claimMore begins claim calls as far as slots, hints and backlog allow. Hints
// have calls of their own, and slots that sweeps leave free: a backlog, however
// long, does not hold up what falls due now. The caller holds mu.
func (q *routeQueue) claimMore() {
	for q.slots.room() > 0 && !q.closed && q.openShards() {
		if !q.claimSome() {
			return
		}
	}
}

// claimSome begins one claim call, if there is one to make.
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

func (q *routeQueue) claimHinted() bool {
	shards := q.d.o.Shards
	if len(q.shards.all()) == 1 {
		shards = nil
	}
	hinted, t, shard := q.hints.take(min(q.slots.room(), maxBatch), shards)
	got := q.d.total.take(&q.share, len(hinted))
	if got < len(hinted) { // the sweep finds the others
		q.backlog.ask(shard, wantDue)
		hinted = hinted[:got]
	}
	if got == 0 {
		return false
	}
	q.begin(call{trigger: t, shard: shard, token: q.d.token(), n: got, keys: hinted, begun: time.Now()})
	return true
}

func (q *routeQueue) claimSwept() bool {
	grace := time.Duration(q.d.grace.Load())
	room := q.slots.forSweep(q.slots.kept(grace > 0, q.hints.expected()))
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
		newest: newest,
		begun:  time.Now()})
	return true
}

// repeatCall makes the first unanswered call of a shard again; see unanswered.
func (q *routeQueue) repeatCall(l *shardQueue) bool {
	n := q.d.total.take(&q.share, min(q.slots.room(), l.unanswered.wants()))
	if n == 0 {
		return false
	}
	c := l.unanswered.take(n)
	c.again = true
	if c.keys == nil {
		c.looks++
		c.kind = kindRecover
	}
	q.begin(c)
	return true
}
