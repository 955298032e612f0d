package dispatch

import (
	"time"

	"notifier/internal/notice"
)

// hold ends the claim of a notice whose receiver is paused, without an attempt, and reports whether it did. The settle
// lists the notice as held: see package receivers.
func (a *attempts) hold(j job) bool {
	c := j.claim
	now := j.now.Add(time.Since(j.at))
	pause, until, ok := a.gate.held(&j, now)
	if !ok {
		return false
	}

	a.gate.arrived(&j)
	countExpired(a.r, c, now)
	e := finished{result: notice.DeferredResult(notice.ReasonPaused, until.Sub(now), ""), attempt: c.NextAttempt(), at: now,
		trigger: j.trigger, slot: true}
	e.Settlement = End(a.r, c, e.result, notice.Attempt{At: now}, a.waits(j, now))
	e.Pause = pause
	a.settleLater(e)
	return true
}

// workersDelay is how long a notice is postponed that another process has to move to its route first.
const workersDelay = time.Second

// leave ends the claim of a notice that belongs to a route of other instances, without an attempt, and reports whether it
// did.
func (a *attempts) leave(j job) bool {
	c := j.claim
	if a.d.o.ForWorkers == nil || c.AwaitsReport || !a.d.o.ForWorkers(a.r, c.Key) {
		return false
	}

	a.gate.arrived(&j)
	now := j.now.Add(time.Since(j.at))
	countExpired(a.r, c, now)
	e := finished{result: notice.DeferredResult(notice.ReasonLease, workersDelay, ""), attempt: c.NextAttempt(), at: now,
		trigger: j.trigger, slot: true}
	e.Settlement = End(a.r, c, e.result, notice.Attempt{At: now}, a.waits(j, now))
	a.settleLater(e)
	return true
}

// settleLater queues a settle. The attempt's slot is for handlers: it is freed before the settle is written, unless too many
// settles are waiting.
func (a *attempts) settleLater(e finished) {
	settles := a.shards.at(e.Claim.Shard).settles
	if e.slot = settles.Len() >= maxUnsettled; !e.slot {
		a.queue.freeSlots(freed{slots: 1, swept: e.trigger.swept(1)})
	}

	a.d.wg.Add(1)
	settles.Add(e)
}
