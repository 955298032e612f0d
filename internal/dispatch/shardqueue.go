package dispatch

import (
	"sync/atomic"
	"time"

	"notifier/internal/pace"
	"notifier/internal/route"
)

// shardQueue is the part of a readyQueue for one shard: failed claims and settles of one shard do
// not delay other shards. The lock of readyQueue guards it unless stated otherwise.
type shardQueue struct {
	shard      int
	settles    *pace.Batcher[finished]
	health     *health // has its own lock
	delays     delays  // have their own lock
	unanswered unanswered
	stuck      int  // claim calls whose reply is late: see lend
	paused     bool // also before the first SetPaused
	known      bool // SetPaused was called
	woke       bool // the last settle has made a notice due that waited for another one of its sequence
	expiring   bool // expired notices are being settled: see Expire
	open       bool // claims may be made: see openShards
}

// shardQueues are the queues of all shards, by shard number. Shards can be added at any time.
type shardQueues struct {
	p atomic.Pointer[[]*shardQueue]
}

func (l *shardQueues) all() []*shardQueue {
	if list := l.p.Load(); list != nil {
		return *list
	}
	return nil
}

// awake ends the pause of all shards after failed claims.
func (l *shardQueues) awake() {
	for _, one := range l.all() {
		one.health.awake()
	}
}

func (l *shardQueues) at(shard int) *shardQueue { return l.all()[shard] }

func newShardQueue(q *readyQueue, shard int) *shardQueue {
	l := &shardQueue{shard: shard, health: newHealth(q, q.d.o.Logger, &q.d.claims), paused: true}
	l.settles = pace.NewBatcher(pace.BatcherOptions{MaxSenders: maxCalls, MinExtra: settleBatchMin, MaxBatch: maxBatch,
		Interval: settlesEvery(q.r, q.d.o.Shards.Places())},
		func(e []finished) { q.attempts.settle(l, e) })
	return l
}

// setPaused records whether the partition is paused. The time before the first call does not count
// as a pause, and a pause at the first call had begun earlier.
func (l *shardQueue) setPaused(paused bool, now time.Time) {
	if paused && !l.known {
		now = time.Time{}
	}

	l.delays.setPaused(paused, now)
	l.paused, l.known = paused, true
}

// settlesEvery returns the minimum interval between two settles of one partition if the load is
// divided into that many parts. A push is never delayed, since its consumers wait for it.
func settlesEvery(r *route.Route, parts int) time.Duration {
	if r.Target.Kind == route.KindList || r.Target.Kind == route.KindStream {
		return 0
	}
	return settleInterval * time.Duration(max(1, min(parts, mostSettleIntervals)))
}

// setParts updates the settle interval for n parts of the load.
func (q *readyQueue) setParts(n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return // settles are not delayed during a drain
	}

	q.parts = n
	for _, l := range q.shards.all() {
		l.setInterval(q.r, q.parts)
	}
}

// setInterval updates the settle interval for that many parts of the load. It is 0 while notices of sequences wait for the
// next settle.
func (l *shardQueue) setInterval(r *route.Route, parts int) {
	every := settlesEvery(r, parts)
	if l.woke {
		every = 0
	}

	l.settles.SetInterval(every)
}

// woke records whether a settle of a shard has made a notice due that waited for another one, and claims it.
func (q *readyQueue) woke(shard int, woke bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if l := q.shards.at(shard); l.woke != woke && !q.closed {
		l.woke = woke
		l.setInterval(q.r, q.parts)
	}

	if woke {
		q.plan.backlog.ask(shard, wantDue)
		q.claimMore()
	}
}
