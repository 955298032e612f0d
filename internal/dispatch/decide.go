package dispatch

import (
	"time"

	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/store"
)

// maxDelay limits the delay that a receiver requests with Retry-After.
const maxDelay = 24 * time.Hour

// minDeferral is the minimum delay of a deferral, except at a shutdown, when another instance
// should take the notice. Without it a notice could be claimed and deferred in a busy loop.
const minDeferral = 10 * time.Millisecond

// Decision is the effect of an attempt's result on its notice.
type Decision struct {
	Ending store.Ending
	// Step is the ladder's delay before the next attempt, without jitter, for EndRetry. After is
	// the minimum delay of EndRetry, and the delay of EndDeferred, EndPostponed and EndHanded.
	Step, After time.Duration
	Counting    Counting
	// Locked is the number of deferrals by a lock since the last attempt.
	Locked int
	// Reason is the failure reason of a dead letter; otherwise empty.
	Reason notice.Reason
}

// Counting is the effect of a result on the notice's attempts.
type Counting int

const (
	CountNothing  Counting = iota // deferred: no attempt was used
	CountAttempt                  // one more attempt was made
	CountReported                 // the attempt that was counted at the push has ended
	CountUndone                   // the attempt that was counted at the push is deferred and no longer counts
)

// Decide returns the effect of an attempt's result res on the notice n of route r: how the claim ends (the Ending),
// when the notice is claimed again, and whether the attempt counts. It is a pure function.
//
//	result                                         Ending     claimed again
//	delivered                                      delivered  –
//	pushed to a list or stream, report required    handed     after the route's timeout, if no report has come
//	retry, the ladder has another delay            retry      after that delay, or later if the result requests so
//	retry, the ladder is used up                   dead       –
//	retry, ladder used up, attempt interrupted     retry      after 10 ms, at most three times
//	dead                                           dead       –
//	dead, because it has expired before a call     dead       –; no attempt counts
//	deferred because the receiver is not ready     deferred   after the requested delay, which sets a new due time
//	deferred to wait longer for a report           handed     after the requested delay
//	deferred by this service, such as at a pause   postponed  after the requested delay; the due time stays
//
// The ladder is the list of delays between attempts. Every result but a deferral counts as an attempt. A pushed notice
// counts once: at the push, not at the report.
func Decide(r *route.Route, n *notice.Notice, res notice.Result) Decision {
	if res.Outcome == notice.OutcomeDeferred {
		return deferral(n, res)
	}

	d := Decision{Ending: store.EndDead, Counting: CountAttempt, Reason: res.Reason}
	made := n.NextAttempt() // the attempt that the result is of
	if res.Reason == notice.ReasonExpired {
		d.Counting = CountNothing
	}

	if n.AwaitsReport { // the push has counted already
		made, d.Counting = n.AttemptsMade, CountReported
	}

	// The consumer of a pushed entry may find the same lock.
	if res.Push != nil {
		d.Locked = n.Locked
	}

	switch res.Outcome {
	case notice.OutcomeDelivered:
		d.Ending, d.Reason = store.EndDelivered, ""
		if res.Push != nil && r.Ack.Kind == route.AckReport {
			d.Ending, d.After = store.EndHanded, r.Timeout
		}
	case notice.OutcomeRetry:
		if step, left := n.StepAfter(made, r.Ladder); left {
			d.Ending, d.Reason = store.EndRetry, ""
			d.Step, d.After = step, min(max(res.After, 0), maxDelay)
		} else if res.Reason == notice.ReasonInterrupted && granted(r, n, made) {
			d.Ending, d.Reason, d.After = store.EndRetry, "", minDeferral
		}
	}

	return d
}

func deferral(n *notice.Notice, res notice.Result) Decision {
	most := maxDelay
	if res.Reason == notice.ReasonPaused { // an operator has set the time
		most = notice.MaxHorizon
	}

	d := Decision{Ending: store.EndPostponed, After: min(max(res.After, 0), most), Locked: n.Locked}
	if d.After == 0 && res.Reason != notice.ReasonShutdown {
		d.After = minDeferral
	}

	switch {
	case n.AwaitsReport && res.Reason == notice.ReasonUnreported:
		d.Ending = store.EndHanded // the wait goes on
	case n.AwaitsReport: // the consumer defers the notice, so the push no longer counts
		d.Counting = CountUndone
	}

	if res.Reason == notice.ReasonLocked {
		d.Ending = store.EndDeferred
		d.Locked++
	}

	return d
}

// expire ends a notice that would be claimed again, because it has expired.
func (d *Decision) expire() {
	switch d.Ending {
	case store.EndRetry, store.EndDeferred, store.EndPostponed:
		d.Ending, d.Reason, d.Step, d.After, d.Locked = store.EndDead, notice.ReasonExpired, 0, 0, 0
	}
}

// granted reports whether another attempt follows attempt number made, which was interrupted and
// used the last step of the ladder.
func granted(r *route.Route, n *notice.Notice, made int) bool {
	most := n.MaxAttempts(r.Ladder)
	return most == 0 || made < most+min(interrupted(n)+1, extraInterrupted)
}

// apply writes the decision about attempt a into the notice.
func (d Decision) apply(n *notice.Notice, a notice.Attempt) {
	switch d.Counting {
	case CountAttempt:
		n.Add(a)
	case CountReported: // the attempt is in the record without its end
		if k := len(n.Attempts); k > 0 {
			n.Attempts[k-1].Reason, n.Attempts[k-1].Response, n.Attempts[k-1].Sealed = a.Reason, a.Response, a.Sealed
		}
	case CountUndone:
		n.AttemptsMade--
		n.Attempts = n.Attempts[:max(len(n.Attempts)-1, 0)]
	}

	n.AwaitsReport = d.Ending == store.EndHanded
	n.Locked = d.Locked
	if d.Ending != store.EndPostponed {
		n.Waits = notice.Waits{}
	}

	if d.Ending == store.EndDead {
		n.Reason = d.Reason
	}
}

// delay returns the time until the notice is due again; share is the route's jitter.
func (d Decision) delay(share float64) time.Duration {
	if d.Ending == store.EndRetry {
		return max(notice.Jittered(d.Step, share), d.After)
	}
	return d.After
}

// End returns the settlement of claim c: the write to Redis that stores the result res of attempt a and ends the claim.
// It also updates the notice of c. Of a it uses only the start and the duration. waits is how long each cause, such as
// a pause, has delayed the notice since its due time.
func End(r *route.Route, c *store.Claim, res notice.Result, a notice.Attempt, waits notice.Waits) store.Settlement {
	n := c.Notice
	d := Decide(r, n, res)
	if n.Expired(a.At.Add(a.Duration)) {
		d.expire()
	}

	// The record must be written if it counts expired leases.
	keep := d.Ending == store.EndPostponed && d.Counting == CountNothing && c.Lapses == 0
	a.Number, a.Status, a.Reason, a.Response = n.NextAttempt(), res.Status, res.Reason, notice.Kept(res.Response)
	d.apply(n, a)
	t := store.Settlement{Claim: *c, Ending: d.Ending, After: d.delay(r.Jitter), Push: res.Push}
	if d.Ending == store.EndPostponed {
		t.Held = heldBy(c, res.Reason)
		keep = !note(n, t.Held, waits) && keep
	}

	if d.Ending == store.EndDead {
		t.Death = death(r, n, res.Host)
	}

	t.KeepRecord = keep
	return t
}
