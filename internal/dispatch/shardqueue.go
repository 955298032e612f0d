package dispatch

import (
	"sync/atomic"
	"time"

	"notifier/internal/coalesce"
	"notifier/internal/route"
)

// shardQueue is the way of one partition through its route's queue: what Redis does with
// the claims and settles of one shard holds up those of no other. Its queue's mutex
// guards it where nothing else is said.
type shardQueue struct {
	shard      int
	settles    *coalesce.Batcher[finished]
	health     *health // has a lock of its own
	unanswered unanswered
	stuck      int  // claim calls whose answer is late: see lend
	paused     bool // until SetPaused is called for the first time, too
	known      bool // SetPaused was called
	open       bool // claims may be made: see openShards
	// pausedFor and failedFor are the last pause, and the last time in which claims failed.
	pausedFor, failedFor span
}

// shardQueues are those of all shards, by their number. There may come more at any
// time.
type shardQueues struct {
	p atomic.Pointer[[]*shardQueue]
}

func (l *shardQueues) all() []*shardQueue {
	if list := l.p.Load(); list != nil {
		return *list
	}
	return nil
}

func (l *shardQueues) at(shard int) *shardQueue { return l.all()[shard] }

func newShardQueue(q *routeQueue, shard int) *shardQueue {
	l := &shardQueue{shard: shard, health: newHealth(q), paused: true}
	l.settles = coalesce.New(coalesce.Options{MaxSenders: maxCalls, MinExtra: settleBatchMin, MaxBatch: maxBatch,
		Interval: settlesEvery(q.r, q.d.o.Shards.Places())},
		func(e []finished) { q.settle(l, e) })
	return l
}

// setPaused notes whether the partition is paused. Before the first call nothing is
// claimed, which is no pause; a pause at the first call had begun before.
func (l *shardQueue) setPaused(paused bool, now time.Time) {
	switch {
	case !paused:
		l.pausedFor.end(now)
	case l.known:
		l.pausedFor.begin(now)
	default:
		l.pausedFor.begin(time.Time{})
	}
	l.paused, l.known = paused, true
}

// settlesEvery is the least time between two settles of one partition, where the load
// falls into so many parts: nobody waits for a settle, unless it is the
// push that its consumers wait for.
func settlesEvery(r *route.Route, parts int) time.Duration {
	if r.Target.Kind == route.KindList || r.Target.Kind == route.KindStream {
		return 0
	}
	return settleInterval * time.Duration(max(1, min(parts, mostSettleIntervals)))
}

// setParts takes over into how many parts the load falls.
func (q *routeQueue) setParts(n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return // what is settled now waits for nothing
	}
	for _, l := range q.shards.all() {
		l.settles.SetInterval(settlesEvery(q.r, n))
	}
}

// openShards notes which shards may claim, and reports whether any may. The hints of
// those that may not are left to their sweeps, unless they take nobody's room. The
// caller holds mu.
func (q *routeQueue) openShards() (some bool) {
	all := true
	for _, l := range q.shards.all() {
		l.open = !l.paused && l.stuck == 0 && l.health.ready()
		some, all = some || l.open, all && l.open
	}
	if all || len(q.hints.waiting) == 0 {
		return some
	}
	q.hints.leave(func(key string) bool {
		l := q.shards.at(q.d.o.Shards.Shard(key))
		leave := l.paused || some && !l.open
		if leave {
			q.backlog.ask(l.shard, wantDue)
		}
		return leave
	})
	return some
}

// isOpen reports what openShards noted of a shard.
func (q *routeQueue) isOpen(shard int) bool { return q.shards.at(shard).open }

// owed is the shard whose unanswered call is to be made again; nil = there is none.
func (q *routeQueue) owed() *shardQueue {
	for i := range q.shards.all() {
		l := q.shards.at((q.turn + i) % len(q.shards.all()))
		if l.open && l.unanswered.wants() > 0 {
			q.turn = l.shard + 1
			return l
		}
	}
	return nil
}
