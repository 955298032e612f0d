package dispatch

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"go.uber.org/zap"

	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/store"
)

// ending is a settlement on its way, with what the log says of it afterwards.
type ending struct {
	store.Settlement
	result   notice.Result
	attempt  int
	at       time.Time
	took     time.Duration
	lateness time.Duration
	source   string
	slot     bool // it still holds its slot
}

// attempt makes one attempt of a won claim. Redis said now when this process's
// clock said at.
func (l *lane) attempt(c *store.Claim, now, at time.Time, source string) {
	begin := now.Add(time.Since(at))
	e := ending{at: begin, lateness: begin.Sub(c.Attention()), source: source, slot: true}
	countLapses(l.r, c)
	e.attempt = c.Coming()
	switch {
	case c.Handed:
		e.attempt = c.Used // the one whose report did not come
		e.result = notice.RetryResult(notice.ReasonUnreported, "no report within "+l.r.Timeout.String())
	case spent(l.r, c.Notice):
		e.result = notice.DeadResult(notice.ReasonExhausted, "every attempt was lost before its end")
	default:
		l.d.o.Observer.Lateness(l.r.Name, source, e.lateness)
		from := time.Now()
		e.result = l.handle(c.Notice)
		e.took = time.Since(from)
		l.d.o.Observer.HandlerTime(l.r.Name, e.took)
	}
	e.Settlement = Decide(l.r, c, e.result, e.at, e.took)
	if l.settles[c.Shard].Len() < unsettled {
		// The slot is for handlers; it need not wait until all is written down.
		e.slot = false
		l.release(1, 0, swept(source, 1))
	}
	l.d.wg.Add(1)
	l.settles[c.Shard].Add(e)
}

// unsettled is how many attempts of a shard may wait for their settle before
// the next keep their slots meanwhile.
const unsettled = 4 * batch

// giveBack returns a claim that was not begun, for another instance to take at
// once.
func (l *lane) giveBack(c *store.Claim, source string) {
	countLapses(l.r, c)
	r := notice.DeferredResult(notice.ReasonShutdown, 0, "")
	l.d.wg.Add(1)
	l.settles[c.Shard].Add(ending{Settlement: Decide(l.r, c, r, time.Time{}, 0), result: r, attempt: c.Coming(),
		source: source, slot: true})
}

func (l *lane) handle(n *notice.Notice) (r notice.Result) {
	ctx, cancel := context.WithTimeout(l.d.work, l.r.Timeout)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			l.d.o.Logger.Error("handler panicked", zap.String("key", n.Key), zap.Any("panic", p), zap.ByteString("stack", debug.Stack()))
			r = notice.RetryResult(notice.ReasonPanic, fmt.Sprint(p))
		}
		if r.Outcome == notice.OutcomeRetry && errors.Is(context.Cause(ctx), ErrShutdown) {
			// It was cut short by us, which is not the receiver's failure.
			r = notice.DeferredResult(notice.ReasonShutdown, 0, r.Response)
		}
	}()
	return l.h.Handle(ctx, l.r, n)
}

// countLapses adds the attempts that were begun and never settled.
func countLapses(r *route.Route, c *store.Claim) {
	if c.Handed {
		return // the attempt was counted when it was handed over
	}
	for range c.Lapses {
		c.Add(notice.Attempt{N: c.Used + 1, At: c.Attention().Add(-r.Lease()), Duration: r.Lease(), Reason: notice.ReasonInterrupted})
	}
}

// granted is how many interrupted attempts are granted beyond the ladder.
const granted = 3

// spent tells whether no attempt is left.
func spent(r *route.Route, n *notice.Notice) bool {
	l := r.Ladder
	if n.Ladder != nil {
		l = n.Ladder
	}
	lost := 0
	for _, a := range n.Attempts {
		if a.N > n.Redriven && a.Reason == notice.ReasonInterrupted {
			lost++
		}
	}
	return n.Used-n.Redriven > len(l)+min(lost, granted)
}

// maxAfter bounds what a receiver may ask for with Retry-After.
const maxAfter = 24 * time.Hour

// leastAfter is how long a notice is put off at least, unless another instance
// is to take it: at no distance it would be claimed and put off without end.
const leastAfter = 10 * time.Millisecond

// Decide writes what an attempt came to into the claim's notice and says how
// the claim ends. It is pure but for jitter.
func Decide(r *route.Route, c *store.Claim, res notice.Result, at time.Time, took time.Duration) store.Settlement {
	n := c.Notice
	s := store.Settlement{Claim: *c, Push: res.Push}
	if res.Outcome == notice.OutcomeDeferred {
		s.Ending, s.After = store.EndDeferred, min(max(res.After, 0), maxAfter)
		if s.After == 0 && res.Reason != notice.ReasonShutdown {
			s.After = leastAfter
		}
		s.Untouched = c.Lapses == 0
		if n.Handed { // it was counted when it was handed over
			n.Handed, s.Untouched = false, false
			n.Used--
			n.Attempts = n.Attempts[:max(len(n.Attempts)-1, 0)]
		}
		if res.Reason == notice.ReasonLocked {
			n.Locked++
			s.Untouched = false
		}
		return s
	}
	if res.Push == nil {
		// A push is no end: its consumer may find the lock and put it off again.
		n.Locked = 0
	}
	step, more := n.Step(r.Ladder)
	if n.Handed {
		// The attempt stands in the record already; this is its end.
		n.Handed = false
		n.Used-- // the step that follows it
		step, more = n.Step(r.Ladder)
		n.Used++
		if k := len(n.Attempts); k > 0 {
			n.Attempts[k-1].Reason, n.Attempts[k-1].Response = res.Reason, notice.Kept(res.Response)
		}
	} else {
		n.Add(notice.Attempt{N: n.Used + 1, At: at, Duration: took, Status: res.Status, Reason: res.Reason, Response: notice.Kept(res.Response)})
	}
	switch res.Outcome {
	case notice.OutcomeDelivered:
		s.Ending = store.EndDelivered
		if res.Push != nil && r.Ack.Kind == route.AckReport {
			s.Ending, s.After = store.EndHanded, r.Timeout
			n.Handed = true
		}
	case notice.OutcomeRetry:
		if !more {
			s.Ending, n.Reason = store.EndDead, res.Reason
			break
		}
		s.Ending = store.EndRetry
		s.After = max(notice.Jittered(step, r.Jitter), min(res.After, maxAfter))
	default:
		s.Ending, n.Reason = store.EndDead, res.Reason
	}
	return s
}

// sayAgain is how often the log tells of a settle that Redis does not take: its
// route stands still for as long.
const sayAgain = time.Minute

// settle writes endings of one shard, again and again until Redis takes them:
// a lost settle would double the notice.
func (l *lane) settle(shard int, list []ending) {
	items := make([]store.Settlement, len(list))
	for i := range list {
		items[i] = list[i].Settlement
	}
	wait, failed, said := 10*time.Millisecond, false, time.Time{}
	for {
		ctx, cancel := context.WithTimeout(context.Background(), claimTimeout)
		done, err := l.d.o.Store.Settle(ctx, l.r.Prefix, shard, items)
		cancel()
		if err == nil {
			if failed {
				l.mu.Lock()
				l.failing--
				l.mu.Unlock()
			}
			l.report(l.refused(list, done))
			return
		}
		if !failed {
			failed = true
			l.mu.Lock()
			l.failing++
			l.mu.Unlock()
			l.d.o.Observer.Unsettled(l.r.Name, len(list))
		}
		if time.Since(said) > sayAgain {
			said = time.Now()
			l.d.o.Logger.Warn("settle failed; it is repeated", zap.String("route", l.r.Name), zap.Int("notices", len(list)), zap.Error(err))
		}
		select {
		case <-time.After(wait):
			wait = min(2*wait, time.Second)
		case <-l.stop:
			l.d.o.Logger.Error("attempts could not be settled and will be made again", zap.String("route", l.r.Name), zap.Int("notices", len(list)))
			for range list {
				l.d.wg.Done()
			}
			return
		}
	}
}

// refused sends those whose list or stream did not take their entry to the
// settle once more, as failed attempts, and returns the others.
func (l *lane) refused(list []ending, done []store.Settled) ([]ending, []store.Settled) {
	some := false
	for i := range done {
		some = some || done[i].Refused != ""
	}
	if !some {
		return list, done
	}
	var rest []ending
	var settled []store.Settled
	for i := range list {
		if done[i].Refused == "" {
			rest, settled = append(rest, list[i]), append(settled, done[i])
			continue
		}
		e := list[i]
		// The record in memory holds the attempt as a success; as with one
		// that was handed over, its end is written into it.
		e.Claim.Handed = true
		e.result = notice.RetryResult(notice.ReasonQueue, done[i].Refused)
		e.Settlement = Decide(l.r, &e.Claim, e.result, e.at, e.took)
		l.settles[e.Claim.Shard].Add(e)
	}
	return rest, settled
}

func (l *lane) report(list []ending, done []store.Settled) {
	slots, bySweep := 0, 0
	for i := range list {
		if list[i].slot {
			slots++
			bySweep += swept(list[i].source, 1)
		}
	}
	l.release(slots, len(list), bySweep)
	for i := range list {
		l.log(&list[i], done[i])
		l.d.wg.Done()
	}
}

// outcome is what the settle made of the handler's outcome: a retry without a
// step left is dead.
func (e *ending) outcome() notice.Outcome {
	switch e.Ending {
	case store.EndDelivered, store.EndHanded:
		return notice.OutcomeDelivered
	case store.EndRetry:
		return notice.OutcomeRetry
	case store.EndDead:
		return notice.OutcomeDead
	}
	return notice.OutcomeDeferred
}

// log writes the one line of an attempt.
func (l *lane) log(e *ending, s store.Settled) {
	l.d.o.Observer.Attempt(l.r.Name, e.outcome(), e.result.Reason)
	level := zap.InfoLevel
	if e.Ending == store.EndDeferred {
		level = zap.DebugLevel
	}
	ce := l.d.o.Logger.Check(level, "attempt")
	if ce == nil {
		return
	}
	fields := make([]zap.Field, 0, 12)
	fields = append(fields, zap.String("key", e.Claim.Key), zap.String("route", l.r.Name), zap.Int("attempt", e.attempt),
		zap.String("outcome", string(e.outcome())), zap.String("source", e.source),
		zap.Float64("lateness_ms", float64(e.lateness.Microseconds())/1000), zap.Float64("duration_ms", float64(e.took.Microseconds())/1000))
	if e.result.Status != 0 {
		fields = append(fields, zap.Int("status", e.result.Status))
	}
	if e.result.Reason != "" {
		fields = append(fields, zap.String("reason", string(e.result.Reason)), zap.String("detail", notice.Kept(e.result.Response)))
	}
	if !s.Due.IsZero() {
		fields = append(fields, zap.Time("next", s.Due))
	}
	if s.Stale {
		fields = append(fields, zap.Bool("stale", true))
	}
	ce.Write(fields...)
}
