package dispatch

import (
	"notifier/internal/notice"
	"notifier/internal/receivers"
	"notifier/internal/route"
)

// observeReceiver records the answer of the receiver in t. It records nothing if no exchange began,
// if this service interrupted the attempt, or while a consumer has not reported yet.
func (e *finished) observeReceiver(t *receivers.Tracker, r *route.Route) {
	failed := false
	switch e.outcome() {
	case notice.OutcomeDelivered:
	case notice.OutcomeRetry, notice.OutcomeDead:
		failed = true
	default:
		return
	}

	receiver := e.result.Host
	switch r.Target.Kind {
	case route.KindList, route.KindStream:
		if failed && e.trigger.source() != notice.SourceReport && e.result.Reason != notice.ReasonUnreported &&
			e.result.Reason != notice.ReasonQueue {
			return
		}
		receiver = r.Target.Key
	default:
		if e.result.Unsent || e.result.Reason == notice.ReasonInterrupted {
			return
		}
	}

	t.Observe(r.Prefix, receiver, receivers.Attempt{At: e.at.Add(e.took), Failed: failed, Status: e.result.Status,
		Reason: string(e.result.Reason), Took: e.took})
}

// judge gives the answer of the receiver to the rules of the route.
func (e *finished) judge(u *receivers.Rules, r *route.Route) {
	if e.result.Unsent || e.result.Reason == notice.ReasonInterrupted {
		return
	}

	a := receivers.Attempt{At: e.at.Add(e.took), Failed: e.outcome() != notice.OutcomeDelivered, Status: e.result.Status}
	if !a.Failed {
		u.Delivered(r, e.Claim.Notice, e.result.Host, e.attempt)
	}

	u.Answered(r, e.Claim.Notice, e.result.Host, a)
	if e.outcome() != notice.OutcomeDeferred {
		u.Observe(r, e.Claim.Notice, e.result.Host, a)
	}
}
