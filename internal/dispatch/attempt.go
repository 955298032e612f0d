package dispatch

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"

	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/store"
)

// finished is a settlement on its way, with what the log says of it afterwards.
type finished struct {
	store.Settlement
	result   notice.Result
	attempt  int
	at       time.Time
	took     time.Duration
	due      time.Time // the promise that lateness counts from; zero = none
	lateness time.Duration
	held     notice.Held  // of an exchange that began
	waits    notice.Waits // until the attempt began
	pushes   bool         // the settle makes the exchange
	trigger  trigger
	slot     bool       // it still holds its slot
	span     trace.Span // of the exchange; nil if none is recorded
}

// settleReserve is the least of a lease that is left when its handler has run into
// the timeout.
const settleReserve = time.Second

// attempt makes one attempt of a won claim, unless so much of the lease has gone
// by that another could claim the notice before the handler is done, or others may
// have taken the claim over.
func (q *routeQueue) attempt(ctx context.Context, j job) {
	c := j.claim
	q.arrived(&j)
	if !c.AwaitsReport && (time.Until(j.ends) < q.r.Timeout+settleReserve || !q.d.o.Fleet.MayStart(c.Token())) {
		q.giveBack(j, notice.ReasonLease, true)
		return
	}
	begin := j.now.Add(time.Since(j.at))
	due := c.Due
	if c.AwaitsReport {
		due = c.Attention // when the report was to come
	}
	e := finished{at: begin, due: due, lateness: begin.Sub(due), trigger: j.trigger, slot: true}
	countLapses(q.r, c, begin)
	e.attempt = c.NextAttempt()
	switch {
	case c.AwaitsReport:
		e.attempt = c.AttemptsMade // the one whose report did not come
		if left := q.awaits(j, begin); left > 0 {
			e.result = notice.DeferredResult(notice.ReasonUnreported, left, "redis was unavailable while the report was awaited")
		} else {
			e.result = notice.RetryResult(notice.ReasonUnreported, "no report within "+q.r.Timeout.String())
		}
	case c.Raw != nil:
		e.result = notice.DeadResult(c.Unreadable(), "its record cannot be read; what stands there is kept, and a redrive tries it again")
	case spent(q.r, c.Notice):
		e.result = notice.DeadResult(notice.ReasonExhausted, "every attempt was lost before its end")
	default:
		e.waits = q.waits(j, begin)
		ctx, e.span = q.trace(ctx, c.Notice)
		from := time.Now()
		e.result = q.handle(ctx, c.Notice)
		e.took = time.Since(from)
		if e.pushes = pushes(e.result.Push); !e.pushes {
			q.observe(&e)
		}
		if !e.result.Unsent { // a refusal says nothing of how long calls take
			q.pace(e.took)
		}
		q.d.o.Observer.Handler(q.r.Name, e.took, e.spanContext())
	}
	if q.remembers(&e) {
		q.postpone(&e)
	} else if !e.result.Unsent || e.result.Outcome != notice.OutcomeDeferred { // a call has ended
		q.freedAt(e.result.Host)
	}
	e.Settlement = End(q.r, c, e.result, notice.Attempt{At: e.at, Duration: e.took}, e.waits)
	if !e.pushes {
		e.endSpan(q.r)
	}
	settles := q.shards.at(c.Shard).settles
	if settles.Len() < maxUnsettled {
		// The slot is for handlers; it need not wait until all is written down.
		e.slot = false
		q.release(freed{slots: 1, swept: j.trigger.swept(1)})
	}
	q.d.wg.Add(1)
	settles.Add(e)
}

// maxUnsettled is how many attempts of a shard may wait for their settle before
// the next keep their slots meanwhile.
const maxUnsettled = 4 * maxBatch

// giveBack returns a claim that was not begun, to be taken anew at once; slot says
// whether it holds one.
func (q *routeQueue) giveBack(j job, why notice.Reason, slot bool) {
	c := j.claim
	q.arrived(&j)
	now := j.now.Add(time.Since(j.at))
	countLapses(q.r, c, now)
	r := notice.DeferredResult(why, 0, "")
	q.d.wg.Add(1)
	q.shards.at(c.Shard).settles.Add(finished{Settlement: End(q.r, c, r, notice.Attempt{At: now}, q.waits(j, now)), result: r,
		attempt: c.NextAttempt(),
		trigger: j.trigger, slot: slot})
}

// pushes reports whether the settle makes the exchange, which is a push.
func pushes(p *notice.Push) bool { return p != nil && len(p.Entry) > 0 }

// observe takes the lateness of an exchange that began, and the cause that held it.
// If none began, the notice keeps its due time, and is observed later.
func (q *routeQueue) observe(e *finished) {
	if e.result.Unsent {
		return
	}
	e.lateness += e.result.Waited
	waits := e.waits
	waits.Add(notice.HeldRate, waits.Until.Add(e.result.Waited))
	e.held = waits.Longest()
	q.d.o.Observer.Lateness(q.r.Name, e.trigger.source(), e.held, e.lateness, e.spanContext())
}

func (q *routeQueue) handle(ctx context.Context, n *notice.Notice) (r notice.Result) {
	defer func() {
		if p := recover(); p != nil {
			q.d.o.Logger.Error("handler panicked", zap.String("key", n.Key), zap.Any("panic", p), zap.ByteString("stack", debug.Stack()))
			r = notice.RetryResult(notice.ReasonPanic, fmt.Sprint(p))
		}
		if r.Outcome == notice.OutcomeRetry && errors.Is(context.Cause(ctx), ErrShutdown) {
			// It was cut short by us, which is not the receiver's failure.
			r.Outcome, r.Reason, r.After = notice.OutcomeDeferred, notice.ReasonShutdown, 0
		}
	}()
	return q.handler.Handle(ctx, q.r, n)
}

// countLapses adds the attempts that were begun and never settled. The last one ended
// with its lease, or now, if the claim was taken over before that.
func countLapses(r *route.Route, c *store.Claim, now time.Time) {
	if c.AwaitsReport {
		return // the attempt was counted when it was handed over
	}
	at := c.Attention.Add(-r.Lease())
	if at.Before(c.Due) { // not known: the claim was found again
		at = c.Due
	}
	took := min(r.Lease(), max(0, now.Sub(at)))
	for range c.Lapses {
		c.Add(notice.Attempt{Number: c.AttemptsMade + 1, At: at, Duration: took, Reason: notice.ReasonInterrupted})
	}
}

// extraInterrupted is how many interrupted attempts are granted beyond the ladder.
const extraInterrupted = 3

// spent reports whether no attempt is left.
func spent(r *route.Route, n *notice.Notice) bool {
	return n.AttemptsMade-n.Redriven > allowed(r, n, interrupted(n))
}

// interrupted is how many attempts since the last redrive were interrupted.
func interrupted(n *notice.Notice) (lost int) {
	for _, a := range n.Attempts {
		if a.Number > n.Redriven && a.Reason == notice.ReasonInterrupted {
			lost++
		}
	}
	return lost
}

// allowed is after how many attempts since the last redrive another one is allowed, if
// that many of them were interrupted.
func allowed(r *route.Route, n *notice.Notice, lost int) int {
	q := r.Ladder
	if n.Ladder != nil {
		q = n.Ladder
	}
	return len(q) + min(lost, extraInterrupted)
}
