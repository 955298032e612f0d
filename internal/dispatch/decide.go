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

// Decide returns what the result res of an attempt means for the notice n of route r: how the attempt ends, when the
// notice is due again, and what is counted. Decide is a pure function.
//
// "step" is the next delay of the route's ladder. "asked" is the delay that the receiver asked for, at most one day.
// Locked counts the deferrals by locks (status 423, or a deferral by a consumer):
//
//	result                                    Ending     After                   Locked
//	delivered                                 delivered  –                       0
//	delivered: pushed, no report is awaited   delivered  –                       unchanged
//	delivered: pushed, a report is awaited    handed     the route's timeout     unchanged
//	retry, the ladder has another step        retry      step, at least asked    0
//	retry, the ladder is used up              dead       –                       0
//	retry, used up, attempt was interrupted   retry      10 ms; at most 3 times  0
//	dead                                      dead       –                       0
//	deferred                                  postponed  asked, at least 10 ms   unchanged
//	deferred by the shutdown of an instance   postponed  asked                   unchanged
//	deferred by a lock                        deferred   asked, at least 10 ms   +1
//	deferred, a report is still awaited       handed     asked, at least 10 ms   unchanged
//
// A postponed notice keeps its due time. A lock sets a new one.
//
// The second table shows what is counted. An attempt whose consumer has to report was counted when its entry was
// pushed:
//
//	result           result of an attempt  report that was awaited
//	deferred         CountNothing          CountUndone, or CountNothing if the wait continues
//	any other        CountAttempt          CountReported
func Decide(r *route.Route, n *notice.Notice, res notice.Result) Decision {
	if res.Outcome == notice.OutcomeDeferred {
		return deferral(n, res)
	}
	d := Decision{Ending: store.EndDead, Counting: CountAttempt, Reason: res.Reason}
	made := n.NextAttempt() // the attempt that the result is of
	if n.AwaitsReport {
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
	d := Decision{Ending: store.EndPostponed, After: min(max(res.After, 0), maxDelay), Locked: n.Locked}
	if d.After == 0 && res.Reason != notice.ReasonShutdown {
		d.After = minDeferral
	}
	switch {
	case n.AwaitsReport && res.Reason == notice.ReasonUnreported:
		d.Ending = store.EndHanded // the wait goes on
	case n.AwaitsReport:
		d.Counting = CountUndone
	}
	if res.Reason == notice.ReasonLocked {
		d.Ending = store.EndDeferred
		d.Locked++
	}
	return d
}

// granted reports whether another attempt follows attempt number made, which was interrupted and
// used the last step of the ladder.
func granted(r *route.Route, n *notice.Notice, made int) bool {
	return made-n.Redriven <= allowed(r, n, interrupted(n)+1)
}

// apply writes the decision about attempt a into the notice.
func (d Decision) apply(n *notice.Notice, a notice.Attempt) {
	switch d.Counting {
	case CountAttempt:
		n.Add(a)
	case CountReported: // the attempt is in the record without its end
		if k := len(n.Attempts); k > 0 {
			n.Attempts[k-1].Reason, n.Attempts[k-1].Response = a.Reason, a.Response
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

// End returns the settlement for the result of an attempt, which is the change that Redis writes to end the claim c.
// End also updates the notice of c. a has the start and duration of the attempt; End sets its other fields. waits has
// how long each cause has delayed the notice.
func End(r *route.Route, c *store.Claim, res notice.Result, a notice.Attempt, waits notice.Waits) store.Settlement {
	n := c.Notice
	d := Decide(r, n, res)
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
