package engine

import (
	"context"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"notifier/internal/alarm"
	"notifier/internal/fleet"
	"notifier/internal/history"
	"notifier/internal/metrics"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/store"
	"notifier/internal/wire"
)

// History says where what ends is kept.
type History struct {
	DB     *history.DB // nil = nowhere
	Bodies history.Bodies
	// Backlog is how many endings Redis holds at most.
	Backlog int
}

// most is the bound as the store takes it.
func (h History) most() int {
	if h.DB == nil {
		return 0
	}
	return h.Backlog
}

// host is what the route of a prefix calls; empty where each notice brings its
// own address, or none is called.
func (e *Engine) host(prefix string) string {
	r := e.o.Routes.Prefix(prefix)
	if r == nil || r.Target.Kind != route.KindFixed || r.Target.URL == nil {
		return ""
	}
	host, err := notice.Host(r.Target.URL.Hostname())
	if err != nil {
		return ""
	}
	return host
}

// ended hears that n endings were handed over in a shard.
func (e *Engine) ended(shard, n int) {
	if e.shipper != nil {
		e.shipper.Wake(shard, n)
	}
}

func (e *Engine) newShipper(shards int) *history.Shipper {
	h := e.o.History
	if h.DB == nil {
		return nil
	}
	return history.NewShipper(history.ShipperOptions{Queue: e.store, Writer: h.DB, Shards: shards, Bodies: h.Bodies, Host: e.host, Most: h.Backlog,
		Observer: e.o.Metrics, Tracer: e.o.Tracer, Logger: e.o.Logger})
}

// historyOwner is the service that the history must belong to.
func (e *Engine) historyOwner(ctx context.Context) (history.Owner, error) {
	if err := e.known(ctx); err != nil {
		return history.Owner{}, err
	}
	id, err := e.store.Identity(ctx)
	return history.Owner{Namespace: e.o.Space.Namespace, ID: id}, err
}

// numbered are dead letters whose next endings are counted on from those that the
// history has of them, where it can be asked: Redis may have forgotten that they were
// purged, or all of them.
func (e *Engine) numbered(ctx context.Context, letters []store.Letter) []store.Letter {
	if e.o.History.DB == nil {
		return letters
	}
	letters = slices.Clone(letters)
	for i := range letters {
		l := &letters[i]
		if l.Died.IsZero() {
			continue
		}
		last, err := e.o.History.DB.Number(ctx, l.Key, l.ID())
		if err != nil {
			e.o.Logger.Warn("the history cannot be asked how often dead letters that are put back have ended: a number may come twice", zap.Error(err))
			break
		}
		if last-1 > l.Endings {
			n := *l.Notice
			n.Endings = last - 1
			l.Notice = &n
		}
	}
	return letters
}

// historyEvery is how often an instance without a history looks whether others
// still have one.
const historyEvery = 10 * time.Minute

// keepHistory brings what ends to the database, or, without one, follows whether
// others have one.
func (e *Engine) keepHistory(ctx context.Context) error {
	if e.shipper != nil {
		var wg sync.WaitGroup
		defer wg.Wait()
		wg.Go(func() { e.watchOutboxes(ctx) })
		wg.Go(func() { e.forgetErasures(ctx) })
		return e.shipper.Run(ctx)
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(historyEvery):
		}
		gone, err := e.store.EndHistory(ctx)
		switch {
		case err != nil && ctx.Err() == nil:
			e.o.Logger.Debug("whether others keep a history could not be looked at; it is repeated", zap.Error(err))
		case gone:
			e.o.Logger.Warn("no instance with NOTIFIER_HISTORY_URL was seen for a day: what ends is handed over to no history any more")
		}
	}
}

// outboxEvery is how often an instance with a history looks for instances without an outbox.
const outboxEvery = time.Minute

// watchOutboxes warns of instances whose finalized notices get no entry in the history.
func (e *Engine) watchOutboxes(ctx context.Context) {
	for alarm.Wait(ctx, outboxEvery) {
		e.warnOfNoOutbox(ctx)
	}
}

func (e *Engine) warnOfNoOutbox(ctx context.Context) {
	list, err := fleet.List(ctx, e.heartbeats())
	if err != nil {
		return // the the fleet logs that itself
	}
	for _, i := range list {
		if i.LacksOutbox() {
			e.o.Logger.Warn("the version of an instance has no history: notices that it finalizes get no entry there; update the instance",
				zap.String("instance", i.ID), zap.String("label", i.Label), zap.String("version", i.Version))
		}
	}
}

// historyGauges is how the hand-over stands, without the shards that are missing; nil
// where there is none.
func (e *Engine) historyGauges(ctx context.Context, missing []wire.Lost) (*metrics.HistoryGauges, error) {
	if !e.store.HandsOver() {
		return nil, nil
	}
	g := &metrics.HistoryGauges{Bound: int64(e.o.History.most())}
	for shard := range e.store.Space().Places() {
		if slices.ContainsFunc(missing, func(l wire.Lost) bool { return slices.Contains(l.Shards, shard) }) {
			continue
		}
		left, oldest, lost, err := e.store.Backlog(ctx, shard)
		if err != nil {
			return nil, err
		}
		g.Backlog += left
		g.Lost += lost
		if first, err := store.ReadEnded(oldest); err == nil {
			g.Lag = max(g.Lag, time.Since(first.At))
		}
	}
	return g, nil
}
