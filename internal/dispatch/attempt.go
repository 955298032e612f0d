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

// finished is a settlement that has not been written yet, with the fields to log once it is.
type finished struct {
	store.Settlement
	result   notice.Result
	attempt  int
	at       time.Time
	took     time.Duration
	due      time.Time // lateness counts from this time; zero = not measured
	lateness time.Duration
	held     notice.Held  // the cause that delayed the exchange the longest
	waits    notice.Waits // time per cause until the attempt began
	answer   string       // the sealed answer, of a sealed notice
	pushes   bool         // the settle itself writes the entry to the list or stream
	trigger  trigger
	class    notice.Class // when the attempt began
	slot     bool         // the attempt still holds its slot
	span     trace.Span   // of the exchange; nil if not recorded
	traceID  string       // of the ended span; empty if there was none
}

// settleReserve is the minimum rest of the lease when a handler reaches its timeout.
const settleReserve = time.Second

// promised returns the time from which lateness counts. For a report that did not come it is the
// deadline, and for a notice that was parked until its turn in its sequence the end of that wait.
func promised(r *route.Route, c *store.Claim) time.Time {
	parked := r.Order != route.OrderNone && c.Held == notice.HeldNone && c.Lapses == 0 && c.Attention.After(c.Due)
	if c.AwaitsReport || parked {
		return c.Attention
	}

	return c.Due
}

// attempts makes the attempts of one route and settles them: it decides for each claimed notice whether its handler runs, and
// repeats the settle of the result until Redis has taken it. It has no lock.
type attempts struct {
	d        *Dispatcher
	r        *route.Route
	handler  Handler
	queue    attemptQueue
	shards   *shardQueues
	inFlight *inFlight
	gate     *gate
	keys     *serviceKeys
	stop     chan struct{} // closed when pending settles are abandoned
}

// attemptQueue is what attempts need of the queue of their route. *[readyQueue] implements it.
type attemptQueue interface {
	// await queues a claim that was made ahead until a handler ends, and reports whether it did.
	await(j job) bool
	// next returns the next of these claims for a worker.
	next() (j job, ok bool)
	// pace records the duration of a handler.
	pace(took time.Duration)
	// addRunning counts attempts without slots until they are freed.
	addRunning(n int)
	freeSlots(f freed)
	// woke records whether a settle of a shard has made a notice due that waited for another one.
	woke(shard int, woke bool)
	isClosed() bool
}

// begin starts the attempt of a claim, or releases it after Drain has begun. A claim that awaits a
// report runs no handler.
func (a *attempts) begin(j job, closed bool) {
	if closed && !j.claim.AwaitsReport {
		a.release(j, notice.ReasonShutdown, true)
		return
	}

	if a.leave(j) || a.hold(j) {
		return
	}

	if !a.queue.await(j) {
		a.d.start(j)
	}
}

// attempt makes one attempt of a claimed notice. It releases the claim instead if the lease could
// end before the handler does, or if other instances may have reclaimed it.
func (a *attempts) attempt(ctx context.Context, j job) {
	c := j.claim
	host := a.gate.yields(&j)
	a.gate.arrived(&j)
	// The lease is not renewed later. That would cost a call every few seconds for each slow handler.
	if !c.AwaitsReport && (time.Until(j.ends) < a.r.Timeout+settleReserve || !a.d.o.Fleet.MayStart(c.Token())) {
		a.release(j, notice.ReasonLease, true)
		return
	}

	begin := j.now.Add(time.Since(j.at))
	due := promised(a.r, c)
	e := finished{at: begin, due: due, lateness: begin.Sub(due), trigger: j.trigger, class: c.Class(), slot: true}
	countExpired(a.r, c, begin)
	e.attempt = c.NextAttempt()
	switch {
	case c.AwaitsReport:
		e.attempt = c.AttemptsMade // the attempt whose report did not come
		e.result = a.unreported(j, begin)
	case c.Expired(begin):
		e.result = expiredResult()
	case c.Raw != nil:
		e.result = notice.DeadResult(c.Unreadable(), "the record cannot be read; it is kept, and a redrive tries again")
	case spent(a.r, c.Notice):
		e.result = notice.DeadResult(notice.ReasonExhausted, "every attempt was interrupted")
	case host != "":
		e.waits, e.result = a.waits(j, begin), yielded(host)
	default:
		a.call(ctx, j, &e)
	}

	if a.gate.remembers(&e) {
		a.gate.postpone(&e)
	} else if !e.result.Unsent || e.result.Outcome != notice.OutcomeDeferred { // a call has ended
		a.gate.freedAt(e.result.Host)
	}

	e.Settlement = End(a.r, c, e.result, notice.Attempt{At: e.at, Duration: e.took, Sealed: e.answer}, e.waits)
	if !e.pushes {
		e.endSpan(a.r)
	}

	a.settleLater(e)
}

// unreported returns the result of an attempt whose report did not come in time.
func (a *attempts) unreported(j job, begin time.Time) notice.Result {
	if left := a.awaits(j, begin); left > 0 {
		return notice.DeferredResult(notice.ReasonUnreported, left, "Redis was unavailable before the report's deadline")
	}
	return notice.RetryResult(notice.ReasonUnreported, "no report within "+a.r.Timeout.String())
}

// call runs the handler.
func (a *attempts) call(ctx context.Context, j job, e *finished) {
	e.waits = a.waits(j, e.at)
	ctx, end := a.inFlight.leased(ctx, a.r, j.claim.Token())
	defer end()
	ctx, e.span = startSpan(ctx, a.d.o.Tracer, a.r, j.claim.Notice)
	from := time.Now()
	e.result, e.answer = a.handleOpened(ctx, j.claim)
	e.took = time.Since(from)
	a.gate.shortages.deferred(&e.result, e.waits.For[notice.HeldLocal.Index()])

	if e.pushes = pushes(e.result.Push); !e.pushes {
		a.observe(e)
	}

	if !e.result.Unsent { // a refusal does not show the duration of a call
		a.queue.pace(e.took)
	}

	a.d.o.Observer.Handler(a.r.Name, e.took, e.spanContext())
}

// maxUnsettled bounds the attempts of a shard that wait for their settle without a slot. Above it,
// attempts keep their slots until they are settled.
const maxUnsettled = 4 * maxBatch

// release gives up a claim whose attempt has not started. hasSlot reports whether the claim holds a
// slot.
func (a *attempts) release(j job, why notice.Reason, hasSlot bool) {
	c := j.claim
	a.gate.arrived(&j)
	now := j.now.Add(time.Since(j.at))
	countExpired(a.r, c, now)
	if c.AwaitsReport { // its attempt was made, so it must stay counted
		why = notice.ReasonUnreported
	}

	r := notice.DeferredResult(why, 0, "")
	a.d.wg.Add(1)
	a.shards.at(c.Shard).settles.Add(finished{Settlement: End(a.r, c, r, notice.Attempt{At: now}, a.waits(j, now)), result: r,
		attempt: c.NextAttempt(),
		trigger: j.trigger, slot: hasSlot})
}

// releaseAll gives up claims whose attempts have not started.
func (a *attempts) releaseAll(list []job, why notice.Reason) {
	for _, j := range list {
		a.release(j, why, true)
		a.d.wg.Done()
	}
}

// pushes reports whether the settle delivers the notice, by a push to a list or stream.
func pushes(p *notice.Push) bool { return p != nil && len(p.Entry) > 0 }

// observe records the lateness of an exchange and the cause that delayed it. If no exchange began,
// the notice keeps its due time and is observed later.
func (a *attempts) observe(e *finished) {
	if e.result.Unsent {
		return
	}

	e.lateness += e.result.Waited
	waits := e.waits
	waits.Add(notice.HeldRate, waits.Until.Add(e.result.Waited))
	e.held = waits.Longest()
	a.d.o.Observer.Lateness(a.r.Name, e.trigger.source(), e.held, e.lateness, e.spanContext())
}

func (a *attempts) handle(ctx context.Context, n *notice.Notice) (r notice.Result) {
	defer func() {
		if p := recover(); p != nil {
			a.d.o.Logger.Error("handler panicked", zap.String("key", n.Key), panicked(n, p), zap.ByteString("stack", debug.Stack()))
			r = notice.RetryResult(notice.ReasonPanic, fmt.Sprint(p))
		}

		if r.Outcome != notice.OutcomeRetry {
			return
		}

		// This service ended the attempt: the receiver did not fail.
		switch cause := context.Cause(ctx); {
		case errors.Is(cause, ErrShutdown):
			r.Outcome, r.Reason, r.After = notice.OutcomeDeferred, notice.ReasonShutdown, 0
		case errors.Is(cause, ErrLeaseLost):
			r.Outcome, r.Reason, r.After = notice.OutcomeDeferred, notice.ReasonLease, 0
		}
	}()
	return a.handler.Handle(ctx, a.r, n)
}

// countExpired adds one interrupted attempt to the record for each lease that expired without a
// settle. The last one ended with its lease, or now if the claim was reclaimed earlier.
func countExpired(r *route.Route, c *store.Claim, now time.Time) {
	if c.AwaitsReport {
		return // the attempt was counted when the entry was pushed
	}

	at := c.Attention.Add(-r.Lease())
	if at.Before(c.Due) { // unknown: the claim was recovered
		at = c.Due
	}

	took := min(r.Lease(), max(0, now.Sub(at)))
	for range c.Lapses {
		c.Add(notice.Attempt{Number: c.AttemptsMade + 1, At: at, Duration: took, Reason: notice.ReasonInterrupted})
	}
}

// extraInterrupted is the number of interrupted attempts that do not use a step of the ladder. The handler may never
// have started: a lost reply to the claim call looks the same.
const extraInterrupted = 3

// spent reports whether the notice has used all its attempts.
func spent(r *route.Route, n *notice.Notice) bool {
	most := n.MaxAttempts(r.Ladder)
	return most > 0 && n.AttemptsMade >= most+min(interrupted(n), extraInterrupted)
}

// interrupted returns the number of interrupted attempts since the last redrive.
func interrupted(n *notice.Notice) (lost int) {
	for _, a := range n.Attempts {
		if a.Number > n.Redriven && a.Reason == notice.ReasonInterrupted {
			lost++
		}
	}
	return lost
}

// abandon gives up the settles that Redis does not accept.
func (a *attempts) abandon() { close(a.stop) }
