package dispatch

import (
	"time"

	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/store"
)

// maxDelay bounds what a receiver may ask for with Retry-After.
const maxDelay = 24 * time.Hour

// minDeferral is how long a notice is put off at least, unless another instance
// is to take it: at no distance it would be claimed and put off without end.
const minDeferral = 10 * time.Millisecond

// Decision is what becomes of a notice by the result of an attempt.
type Decision struct {
	Ending store.Ending
	// Step is the ladder's delay before the next attempt, without jitter (of
	// EndRetry). After is the least delay then, and the delay of EndDeferred,
	// EndPostponed and EndHanded.
	Step, After time.Duration
	Counting    Counting
	// Locked is how often the notice has been put off because of a lock since
	// its last attempt.
	Locked int
	// Reason is why it is dead; empty otherwise.
	Reason notice.Reason
}

// Counting says how a result enters the notice's attempts.
type Counting int

// The ways of counting.
const (
	CountNothing  Counting = iota // put off: no attempt was used
	CountAttempt                  // one more attempt was made
	CountReported                 // the attempt that was counted when it was handed over has ended
	CountUndone                   // that attempt is put off: it is not counted any more
)

// Decide says what becomes of notice n of route r by the result of an attempt.
// It changes nothing and depends on nothing else:
//
//	result                        ending     delay                       locked
//	delivered                     delivered  –                           0
//	delivered, pushed             delivered  –                           kept
//	delivered, pushed, to report  handed     the route's timeout         kept
//	retry, a step is left         retry      step, and Retry-After least 0
//	retry, no step is left        dead       –                           0
//	… of an interrupted attempt   retry      10 ms, three times at most  0
//	dead                          dead       –                           0
//	deferred                      postponed  as asked, 10 ms least       kept
//	deferred by a shutdown        postponed  as asked                    kept
//	deferred by a lock            deferred   as asked, 10 ms least       one more
//	deferred, still to report     handed     as asked, 10 ms least       kept
//
// A notice that is postponed keeps its due time: no exchange began, or this service
// ended it, so the promise still holds. A lock, and a consumer's defer, make a new one.
//
// Deferrals and what is asked by Retry-After last a day at most. A push keeps
// what is counted of locks, since its consumer may find the lock and put the
// notice off again.
//
//	                notice is new to it   its report was awaited
//	deferred        CountNothing          CountUndone; CountNothing, if the report is still to come
//	anything else   CountAttempt          CountReported
func Decide(r *route.Route, n *notice.Notice, res notice.Result) Decision {
	if res.Outcome == notice.OutcomeDeferred {
		return deferral(n, res)
	}
	d := Decision{Ending: store.EndDead, Counting: CountAttempt, Reason: res.Reason}
	made := n.NextAttempt() // the attempt that the result is of
	if n.AwaitsReport {
		made, d.Counting = n.AttemptsMade, CountReported
	}
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

// granted reports whether the interrupted attempt of that number, the last of the ladder,
// is followed by another one.
func granted(r *route.Route, n *notice.Notice, made int) bool {
	return made-n.Redriven <= allowed(r, n, interrupted(n)+1)
}

// apply writes the decision into the notice; a is the attempt that it is on.
func (d Decision) apply(n *notice.Notice, a notice.Attempt) {
	switch d.Counting {
	case CountAttempt:
		n.Add(a)
	case CountReported: // it stands in the record; this is its end
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

// delay is the time until the notice needs attention again; share is the
// route's jitter.
func (d Decision) delay(share float64) time.Duration {
	if d.Ending == store.EndRetry {
		return max(notice.Jittered(d.Step, share), d.After)
	}
	return d.After
}

// End makes the settlement of a claim whose attempt came to res: it decides, and writes the
// decision into the claim's notice. Of a are At and Duration used. Waits is what has held the
// notice until then.
func End(r *route.Route, c *store.Claim, res notice.Result, a notice.Attempt, waits notice.Waits) store.Settlement {
	n := c.Notice
	d := Decide(r, n, res)
	// Lapses were counted in the record when it was claimed.
	keep := d.Ending == store.EndPostponed && d.Counting == CountNothing && c.Lapses == 0
	a.Number, a.Status, a.Reason, a.Response = n.NextAttempt(), res.Status, res.Reason, notice.Kept(res.Response)
	d.apply(n, a)
	t := store.Settlement{Claim: *c, Ending: d.Ending, After: d.delay(r.Jitter), Push: res.Push}
	if d.Ending == store.EndPostponed {
		t.Held = heldBy(c, res.Reason)
		keep = !note(n, t.Held, waits) && keep
	}
	t.KeepRecord = keep
	return t
}
