package engine

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"

	"notifier/internal/fleet"
	"notifier/internal/metrics"
	"notifier/internal/route"
	"notifier/internal/store"
	"notifier/internal/wire"
)

// ledger is what this instance tells of its work: of the running minute beside its
// sign of life, and of each minute when it is over.
type ledger struct {
	routes  *route.Table
	metrics *metrics.Metrics

	mu    sync.Mutex
	since time.Time
	base  map[string]metrics.Work // at since
}

func newLedger(routes *route.Table, m *metrics.Metrics) *ledger {
	l := &ledger{routes: routes, metrics: m, since: time.Now()}
	l.base = l.work()
	return l
}

// work is all that this instance has done since the process began, by prefix.
func (l *ledger) work() map[string]metrics.Work {
	out := map[string]metrics.Work{}
	for _, r := range l.routes.All() {
		out[r.Prefix] = l.metrics.Work(r.Name)
	}
	return out
}

// running is what was done in the running minute, and since when.
func (l *ledger) running() (time.Time, map[string]metrics.Work) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.work()
	for prefix, w := range now {
		now[prefix] = w.Since(l.base[prefix])
	}
	return l.since, now
}

// turn ends the running minute and is what was done in it.
func (l *ledger) turn() map[string]metrics.Work {
	l.mu.Lock()
	defer l.mu.Unlock()
	now, done := l.work(), map[string]metrics.Work{}
	for prefix, w := range now {
		if part := w.Since(l.base[prefix]); !part.None() {
			done[prefix] = part
		}
	}
	l.since, l.base = time.Now(), now
	return done
}

// figures are what stands beside this instance's sign of life.
func (e *Engine) figures() []byte {
	since, running := e.ledger.running()
	f := fleet.Figures{Since: since.UnixMilli(), Places: e.store.Space().Places(), Sides: true, Outbox: true, Routes: map[string]fleet.RouteFigures{}}
	// Roughly: what has not changed is not told again.
	f.ClockMS = e.fleet.ClockAhead().Truncate(100 * time.Millisecond).Milliseconds()
	hosts := map[string]map[string]int{}
	for prefix, w := range running {
		waiting := e.dispatch.Waiting(prefix)
		hosts[prefix] = waiting.Hosts
		r := fleet.RouteFigures{InFlight: e.dispatch.InFlight(prefix), Waiting: waiting.By, Work: w}
		if r.InFlight > 0 || len(r.Waiting) > 0 || !w.None() {
			f.Routes[prefix] = r
		}
	}
	if e.o.Hosts != nil {
		f.Hosts = e.o.Hosts.Figures()
	}
	for i := range f.Hosts {
		h := &f.Hosts[i]
		h.Waiting = hosts[h.Prefix][h.Host]
	}
	return f.Encode()
}

// keepMinutes tells of each minute when it is over, and of what is left of the
// last one when ctx ends.
func (e *Engine) keepMinutes(ctx context.Context) error {
	for ctx.Err() == nil {
		next := time.NewTimer(time.Until(time.Now().Truncate(time.Minute).Add(time.Minute)))
		select {
		case <-ctx.Done():
			next.Stop()
		case <-next.C:
		}
		e.tellMinute(context.WithoutCancel(ctx))
	}
	return nil
}

// tellMinute ends the running minute. What cannot be told is missing from charts
// and nowhere else.
func (e *Engine) tellMinute(ctx context.Context) {
	done := e.ledger.turn()
	if len(done) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	text, err := fleet.Minute{Instance: e.Self(), At: time.Now().UnixMilli(), Routes: done}.Encode()
	if err == nil {
		err = e.heartbeats().AddMinute(ctx, text, fleet.MinutesKept)
	}
	if err != nil {
		e.o.Logger.Debug("what was done in the last minute is missing from the charts", zap.Error(err))
	}
}

// Minutes are what all instances did, minute by minute: behind the entry of that
// ID, or since a time if there is none. The last entry's ID leads on.
func (e *Engine) Minutes(ctx context.Context, behind string, since time.Time) ([]fleet.Minute, string, error) {
	if err := e.known(ctx); err != nil {
		return nil, "", err
	}
	list, err := e.heartbeats().Minutes(ctx, behind, since)
	if err == nil && len(list) > 0 {
		behind = list[len(list)-1].ID
	}
	return fleet.ReadMinutes(list), behind, err
}

// Forecast counts what falls due under a prefix in each of n spans from now on, in a
// cluster without the nodes that are missing.
func (e *Engine) Forecast(ctx context.Context, prefix string, span time.Duration, n int) (counts []int64, missing []wire.Lost, err error) {
	if err := e.known(ctx); err != nil {
		return nil, nil, err
	}
	return e.store.Forecast(ctx, prefix, time.Now(), span, n)
}

// AmendMany changes notices that were listed; see store.AmendMany.
func (e *Engine) AmendMany(ctx context.Context, op store.Amendment, list []store.Amended) (done int, missing []wire.Lost, err error) {
	if err := e.known(ctx); err != nil {
		return 0, nil, err
	}
	return e.store.AmendMany(ctx, op, list)
}

// Shards is how many parts Redis holds each route in; 1 while that is not known.
func (e *Engine) Shards() int {
	if !e.isOpen() {
		return 1
	}
	return e.store.Space().Places()
}
