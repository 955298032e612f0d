package app

import (
	"context"
	"fmt"
	"time"

	"notifier/internal/api"
	"notifier/internal/dispatch"
	"notifier/internal/metrics"
	"notifier/internal/notice"
	"notifier/internal/queue"
	"notifier/internal/route"
	"notifier/internal/store"
)

// The calls of the API. Each finds the route of its key and does the rest in
// one script.

// Schedule stores one notice; see schedule.Scheduler.
func (e *Engine) Schedule(ctx context.Context, r store.Request) (store.Reply, error) {
	return e.schedule.Schedule(ctx, r)
}

// ScheduleMany stores notices, with one reply each.
func (e *Engine) ScheduleMany(ctx context.Context, rs []store.Request) []store.Reply {
	return e.schedule.Many(ctx, rs)
}

func (e *Engine) route(key string) (*route.Route, error) {
	r := e.o.Routes.Match(key)
	if r == nil {
		return nil, fmt.Errorf("%s: %w", key, store.ErrUnrouted)
	}
	return r, nil
}

// Find reads one notice.
func (e *Engine) Find(ctx context.Context, key string) (store.Found, error) {
	r, err := e.route(key)
	if err != nil {
		return store.Found{}, err
	}
	return e.store.Find(ctx, r.Prefix, key)
}

func (e *Engine) amend(ctx context.Context, key string, op store.Amendment, due time.Time, delay time.Duration) (store.Change, error) {
	r, err := e.route(key)
	if err != nil {
		return store.Change{}, err
	}
	c, err := e.store.Amend(ctx, r.Prefix, key, op, due, delay, nil)
	if err == nil && c.Done && op != store.Cancel && !c.Due.After(time.Now()) {
		e.dispatch.Hint(r, key)
	}
	return c, err
}

// Cancel ends a notice undelivered.
func (e *Engine) Cancel(ctx context.Context, key string) (store.Change, error) {
	return e.amend(ctx, key, store.Cancel, time.Time{}, 0)
}

// Fire makes a scheduled notice due now.
func (e *Engine) Fire(ctx context.Context, key string) (store.Change, error) {
	return e.amend(ctx, key, store.Fire, time.Time{}, 0)
}

// Redrive schedules a dead letter again, for now, its ladder from the start.
func (e *Engine) Redrive(ctx context.Context, key string) (store.Change, error) {
	return e.amend(ctx, key, store.Redrive, time.Time{}, 0)
}

// Reschedule moves a scheduled notice.
func (e *Engine) Reschedule(ctx context.Context, key string, due time.Time, delay time.Duration) (store.Change, error) {
	return e.amend(ctx, key, store.Reschedule, due, delay)
}

// maxPutOff is how often a consumer may put a notice off before that costs an
// attempt: a lock that is never freed must not keep it pending for good.
const maxPutOff = 100

// Report takes a consumer's verdict on attempt of a notice that it got from a
// list or stream. Where reports are awaited, it ends the attempt; otherwise a
// push was a delivery, and a report of failure opens it again. A report that
// comes too late, or again, changes nothing.
func (e *Engine) Report(ctx context.Context, key string, attempt int, v store.Verdict) (store.Change, error) {
	r, err := e.route(key)
	if err != nil {
		return store.Change{}, err
	}
	f, err := e.store.Find(ctx, r.Prefix, key)
	if err != nil {
		return store.Change{}, err
	}
	out := store.Change{Found: f, Before: f.State}
	if f.Used != attempt {
		return out, nil
	}
	res := notice.Result{Outcome: v.Outcome, Reason: v.Reason, Response: v.Response, After: v.After}
	if res.Outcome == notice.OutcomeDeferred && res.After <= 0 {
		res.After = queue.Report
	}
	if res.Outcome == notice.OutcomeDeferred && f.Locked >= maxPutOff {
		res.Outcome = notice.OutcomeRetry
	}
	switch {
	case f.State == notice.Claimed && f.Handed:
		return e.reportHanded(ctx, r, f, res)
	case f.State == notice.Delivered && v.Outcome != notice.OutcomeDelivered && (r.Target.Kind == route.KindList || r.Target.Kind == route.KindStream):
		f.Handed = true // so that the verdict ends the attempt that was counted
		shard := e.store.Space().Shard(key)
		claim := store.Reported(f, shard)
		s := dispatch.Decide(r, &claim, res, time.Now(), 0)
		if s.Ending == store.EndDead {
			// A delivered notice that its last consumer refused: it is due
			// once more, is claimed, and dies of its spent ladder.
			s.After = 0
		}
		return e.store.Amend(ctx, r.Prefix, key, store.Reopen, time.Time{}, s.After, f.Notice)
	}
	return out, nil
}

func (e *Engine) reportHanded(ctx context.Context, r *route.Route, f store.Found, res notice.Result) (store.Change, error) {
	shard := e.store.Space().Shard(f.Key)
	claim := store.Reported(f, shard)
	s := dispatch.Decide(r, &claim, res, time.Now(), 0)
	done, err := e.store.Settle(ctx, r.Prefix, shard, []store.Settlement{s})
	if err != nil {
		return store.Change{}, err
	}
	after, err := e.store.Find(ctx, r.Prefix, f.Key)
	if err != nil {
		return store.Change{}, err
	}
	if !done[0].Stale {
		e.o.Metrics.Attempt(r.Name, res.Outcome, res.Reason)
	}
	return store.Change{Found: after, Before: notice.Claimed, Done: !done[0].Stale}, nil
}

// List reads a page.
func (e *Engine) List(ctx context.Context, q store.Query) (store.Page, error) {
	return e.store.List(ctx, q)
}

// RedriveAll makes one bounded step of a bulk redrive.
func (e *Engine) RedriveAll(ctx context.Context, q store.Query, dryRun bool) (store.Redriven, error) {
	return e.store.RedriveAll(ctx, q, dryRun)
}

// Pause stops claims of a route on every instance.
func (e *Engine) Pause(ctx context.Context, prefix string) error { return e.store.Pause(ctx, prefix) }

// Resume undoes Pause. What fell due meanwhile is worked off as the route's
// slots and rate allow.
func (e *Engine) Resume(ctx context.Context, prefix string) error { return e.store.Resume(ctx, prefix) }

// Counts says what Redis holds of each route.
func (e *Engine) Counts(ctx context.Context) ([]store.Counts, error) {
	var out []store.Counts
	for _, r := range e.o.Routes.All() {
		c, err := e.store.Counts(ctx, r.Prefix)
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, nil
}

// Stats says what this instance did since it began.
func (e *Engine) Stats() []api.RouteStats {
	var out []api.RouteStats
	for _, r := range e.o.Routes.All() {
		s := e.o.Metrics.Stats(r.Name)
		out = append(out, api.RouteStats{Prefix: r.Prefix, InFlight: e.dispatch.InFlight(r.Prefix), Outcomes: s.Outcomes,
			LatenessP50: s.LatenessP50, LatenessP99: s.LatenessP99})
	}
	return out
}

// gauges is what a scrape asks for.
func (e *Engine) gauges(ctx context.Context) (metrics.Gauges, error) {
	counts, err := e.Counts(ctx)
	if err != nil {
		return metrics.Gauges{}, err
	}
	g := metrics.Gauges{Orphaned: e.keeper.Orphans(), Subscribed: e.listener.Alive() > 0 && e.events.Load()}
	for _, c := range counts {
		r := e.o.Routes.Prefix(c.Prefix)
		g.Routes = append(g.Routes, metrics.RouteGauges{Route: r.Name, Pending: c.Pending, Overdue: c.Overdue, Dead: c.Dead,
			Settled: c.Settled, InFlight: int64(e.dispatch.InFlight(c.Prefix)), Paused: c.Paused})
	}
	return g, nil
}

// observer tells the metrics what dispatch does.
type observer struct{ m *metrics.Metrics }

func (o observer) Claims(source, result string, n int) {
	if n > 0 {
		o.m.Claim(source, result, n)
	}
}

func (o observer) Attempt(route string, out notice.Outcome, r notice.Reason) {
	o.m.Attempt(route, out, r)
}
func (o observer) Lateness(route, source string, d time.Duration) { o.m.Lateness(route, source, d) }
func (o observer) HandlerTime(route string, d time.Duration)      { o.m.Handler(route, d) }
func (o observer) Unsettled(route string, n int)                  { o.m.Unsettled(route, n) }
