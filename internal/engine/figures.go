package engine

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"

	"notifier/internal/fleet"
	"notifier/internal/route"
	"notifier/internal/wire"
)

// ledger counts the work of this instance, which is published with the heartbeat for the current
// minute, and once more for each completed minute.
type ledger struct {
	routes  *route.Table
	metrics Metrics

	mu    sync.Mutex
	since time.Time
	base  map[string]fleet.Work // counts at since
}

func newLedger(routes *route.Table, m Metrics) *ledger {
	l := &ledger{routes: routes, metrics: m, since: time.Now()}
	l.base = l.work()
	return l
}

// work returns the work of this process since its start, by prefix.
func (l *ledger) work() map[string]fleet.Work {
	out := map[string]fleet.Work{}
	for _, r := range l.routes.All() {
		out[r.Prefix] = l.metrics.Work(r.Name)
	}

	return out
}

// running returns the work in the current minute and its start.
func (l *ledger) running() (time.Time, map[string]fleet.Work) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.work()
	for prefix, w := range now {
		now[prefix] = w.Since(l.base[prefix])
	}

	return l.since, now
}

// turn ends the current minute and returns its work.
func (l *ledger) turn() map[string]fleet.Work {
	l.mu.Lock()
	defer l.mu.Unlock()
	now, done := l.work(), map[string]fleet.Work{}
	for prefix, w := range now {
		if part := w.Since(l.base[prefix]); !part.None() {
			done[prefix] = part
		}
	}

	l.since, l.base = time.Now(), now
	return done
}

// figures returns the figures published with this instance's heartbeat.
func (e *Engine) figures() []byte {
	since, running := e.ledger.running()
	f := fleet.Figures{Since: since.UnixMilli(), Places: e.store.Space().Places(), Sides: true, Outbox: true,
		KeepsNone: e.o.Retention == 0, Lost: e.losses.texts(), Full: e.full.condition().Reason, Routes: map[string]fleet.RouteFigures{}}
	_, f.Unwritten = e.refused()
	// Rounded, because only changes are published.
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

// keepMinutes publishes the work of each minute, and the last partial one when ctx ends.
func (e *Engine) keepMinutes(ctx context.Context) error {
	for ctx.Err() == nil {
		next := time.NewTimer(time.Until(time.Now().Truncate(time.Minute).Add(time.Minute)))
		select {
		case <-ctx.Done():
			next.Stop()
		case <-next.C:
		}

		e.publishMinute(context.WithoutCancel(ctx))
	}
	return nil
}

// publishMinute publishes the work of the current minute and starts the next one. After a failure
// the minute is missing only in charts.
func (e *Engine) publishMinute(ctx context.Context) {
	done := e.ledger.turn()
	if len(done) == 0 {
		return
	}

	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	text, err := fleet.Minute{Instance: e.Self(), At: e.Now().UnixMilli(), Routes: done}.Encode()
	if err == nil {
		err = e.heartbeats().AddMinute(ctx, text, fleet.MinutesKept)
	}

	if err != nil {
		e.o.Logger.Debug("cannot publish the work of the last minute, it is missing in charts", zap.Error(err))
	}
}

// Minutes returns the work of all instances by minute: entries after the one with ID behind, or
// since a time if behind is empty. The ID of the last entry continues the list.
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

// Forecast counts the notices of a prefix that fall due in each of the next n spans. In a cluster,
// missing lists the nodes that are not included.
func (e *Engine) Forecast(ctx context.Context, prefix string, span time.Duration, n int) (counts []int64, missing []wire.Lost, err error) {
	if err := e.known(ctx); err != nil {
		return nil, nil, err
	}
	return e.store.Forecast(ctx, prefix, time.Now(), span, n)
}

// Shards returns the number of shards of each route; 1 while it is unknown.
func (e *Engine) Shards() int {
	if !e.isOpen() {
		return 1
	}
	return e.store.Space().Places()
}
