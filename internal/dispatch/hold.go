package dispatch

import (
	"time"

	"notifier/internal/notice"
)

// hold ends the claim of a notice whose receiver is paused, without an attempt, and reports whether it did. The settle
// lists the notice as held: see package receivers.
func (q *routeQueue) hold(j job) bool {
	c := j.claim
	now := j.now.Add(time.Since(j.at))
	pause, until, ok := q.gate.held(&j, now)
	if !ok {
		return false
	}

	q.gate.arrived(&j)
	countExpired(q.r, c, now)
	e := finished{result: notice.DeferredResult(notice.ReasonPaused, until.Sub(now), ""), attempt: c.NextAttempt(), at: now,
		trigger: j.trigger, slot: true}
	e.Settlement = End(q.r, c, e.result, notice.Attempt{At: now}, q.waits(j, now))
	e.Pause = pause
	q.settleLater(e)
	return true
}

// workersDelay is how long a notice is postponed that another process has to move to its route first.
const workersDelay = time.Second

// leave ends the claim of a notice that belongs to a route of other instances, without an attempt, and reports whether it
// did.
func (q *routeQueue) leave(j job) bool {
	c := j.claim
	if q.d.o.ForWorkers == nil || c.AwaitsReport || !q.d.o.ForWorkers(q.r, c.Key) {
		return false
	}

	q.gate.arrived(&j)
	now := j.now.Add(time.Since(j.at))
	countExpired(q.r, c, now)
	e := finished{result: notice.DeferredResult(notice.ReasonLease, workersDelay, ""), attempt: c.NextAttempt(), at: now,
		trigger: j.trigger, slot: true}
	e.Settlement = End(q.r, c, e.result, notice.Attempt{At: now}, q.waits(j, now))
	q.settleLater(e)
	return true
}

// settleLater queues a settle. The attempt's slot is for handlers: it is freed before the settle is written, unless too many
// settles are waiting.
func (q *routeQueue) settleLater(e finished) {
	settles := q.shards.at(e.Claim.Shard).settles
	if e.slot = settles.Len() >= maxUnsettled; !e.slot {
		q.freeSlots(freed{slots: 1, swept: e.trigger.swept(1)})
	}

	q.d.wg.Add(1)
	settles.Add(e)
}
