package engine

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"notifier/internal/codec"
	"notifier/internal/config"
	"notifier/internal/fleet"
	"notifier/internal/history"
	"notifier/internal/notice"
	"notifier/internal/pace"
	"notifier/internal/route"
	"notifier/internal/store"
	"notifier/internal/wire"
)

// History configures where finalized notices are recorded.
type History struct {
	DB     *history.DB // nil = no history
	Bodies history.Bodies
	// Backlog is the maximum number of finalized notices in the outboxes.
	Backlog int
}

// OpenHistory returns the history of a configuration, which is empty if that names none. It does not connect to the
// database, which may be down while notices are delivered. The program must import the package of the database.
func OpenHistory(c config.History) (History, error) {
	h := History{Bodies: history.Bodies(c.Bodies), Backlog: c.Backlog}
	if len(c.URL) == 0 {
		return h, nil
	}

	d, err := history.Open(history.Options{URL: string(c.URL), Bodies: h.Bodies, Retention: c.Retention})
	if err != nil {
		return h, fmt.Errorf("%w: %w", ErrConfig, err)
	}

	h.DB = d
	return h, nil
}

// most returns Backlog in the form that the store expects.
func (h History) most() int {
	if h.DB == nil {
		return 0
	}
	return h.Backlog
}

// host returns the host that the route of a prefix calls. It is empty if each notice has its own
// address or none is called.
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

// outbox returns the outboxes of all shards.
func (e *Engine) outbox() history.Outbox { return history.Outbox{Wire: e.store.Wire()} }

func (e *Engine) newShipper(shards int) *history.Shipper {
	h := e.o.History
	if h.DB == nil {
		return nil
	}

	return history.NewShipper(history.ShipperOptions{Queue: e.outbox(), Writer: h.DB, Shards: shards, Bodies: h.Bodies, Host: e.host,
		Most: h.Backlog, Observer: e.o.Metrics, Tracer: e.o.Tracer, Logger: e.o.Logger})
}

// historyOwner identifies the service that must own the history.
func (e *Engine) historyOwner(ctx context.Context) (history.Owner, error) {
	if err := e.known(ctx); err != nil {
		return history.Owner{}, err
	}

	id, err := e.store.Layout.Identity(ctx)
	return history.Owner{Namespace: e.o.Space.Namespace, ID: id}, err
}

// Erase deletes the finalized notices of a key or host: see package jobs.
func (e *Engine) Erase(ctx context.Context, x history.Erasure) (history.Erased, error) {
	if err := e.known(ctx); err != nil {
		return history.Erased{}, err
	}
	return e.eraser.Erase(ctx, x)
}

// erasable is the Notices of package jobs.
type erasable struct{ *Engine }

func (x erasable) Host(prefix string) string { return x.host(prefix) }

// numbered continues the ending numbers of dead letters from the history, if it is available: Redis
// may no longer hold them.
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
			e.o.Logger.Warn("cannot read the ending numbers of restored dead letters from the history, a number may be used twice", zap.Error(err))
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

// unwritten describes why finalized notices are not written to the history. It is urgent once they are lost.
func (e *Engine) unwritten() fleet.Condition {
	waiting, err := e.refused()
	if err == "" {
		return fleet.Condition{}
	}

	bound := int64(e.o.History.most())
	wait := notice.Count(waiting, "finalized notice") + " wait"
	if waiting == 1 {
		wait += "s"
	}

	return fleet.Condition{Urgent: waiting >= bound, Reason: fmt.Sprintf("the history cannot be written: %s; %s in Redis until it can, and "+
		"above %d (NOTIFIER_HISTORY_BACKLOG) the oldest are not recorded", err, wait, bound)}
}

// maxRefused is the maximum length of a database's error in /readyz and in figures.
const maxRefused = 300

// refused returns the error of the history's database, if entries wait for it, and their number.
func (e *Engine) refused() (waiting int64, text string) {
	if e.shipper == nil {
		return 0, ""
	}

	waiting, err := e.shipper.Unwritten()
	if err != nil {
		text = codec.Clip(err.Error(), maxRefused)
	}

	return waiting, text
}

// historyEvery is how often an instance without a history checks whether others have one.
const historyEvery = 10 * time.Minute

// keepHistory relays finalized notices to the database. Without a database it watches whether other
// instances have one.
func (e *Engine) keepHistory(ctx context.Context) error {
	if e.shipper != nil {
		var wg sync.WaitGroup
		defer wg.Wait()
		wg.Go(func() { e.watchOutboxes(ctx) })
		wg.Go(func() { e.eraser.Tend(ctx) })
		wg.Go(func() { e.markLost(ctx) })
		return e.shipper.Run(ctx)
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(historyEvery):
		}

		gone, err := e.store.Layout.EndHistory(ctx)
		switch {
		case err != nil && ctx.Err() == nil:
			e.o.Logger.Debug("cannot check whether other instances have a history, retrying", zap.Error(err))
		case gone:
			e.o.Logger.Warn("no instance with NOTIFIER_HISTORY_URL for a day, finalized notices are no longer recorded")
		}
	}
}

// markLost records each loss of all data in the history until ctx ends. Each write is repeated until it succeeds.
func (e *Engine) markLost(ctx context.Context) {
	for {
		for _, r := range e.losses.unmarked() {
			if err := e.o.History.DB.MarkLost(ctx, e.o.Space.Namespace, r.Was, r.Now); err != nil {
				e.o.Logger.Debug("cannot record the loss of data in the history, retrying", zap.Error(err))
				break
			}

			e.losses.marked()
		}

		select {
		case <-ctx.Done():
			return
		case <-e.losses.marks:
		case <-time.After(checkEvery):
		}
	}
}

// outboxEvery is how often an instance with a history looks for instances without an outbox.
const outboxEvery = time.Minute

// watchOutboxes warns of instances whose finalized notices are missing in the history.
func (e *Engine) watchOutboxes(ctx context.Context) {
	for pace.Wait(ctx, outboxEvery) {
		e.warnOfNoOutbox(ctx)
	}
}

func (e *Engine) warnOfNoOutbox(ctx context.Context) {
	list, err := fleet.List(ctx, e.heartbeats())
	if err != nil {
		return // the fleet logs that itself
	}

	for _, i := range list {
		if i.LacksOutbox() {
			e.o.Logger.Warn("the version of an instance has no history: notices that it finalizes get no entry there; update the instance",
				zap.String("instance", i.ID), zap.String("label", i.Label), zap.String("version", i.Version))
		}
	}
}

// historyGauges returns the state of the outbox relay, without the missing shards; nil without a
// history.
func (e *Engine) historyGauges(ctx context.Context, missing []wire.Lost) (*fleet.HistoryGauges, error) {
	if !e.store.Layout.HandsOver() {
		return nil, nil
	}

	g := &fleet.HistoryGauges{Bound: int64(e.o.History.most())}
	for shard := range e.store.Space().Places() {
		if slices.ContainsFunc(missing, func(l wire.Lost) bool { return slices.Contains(l.Shards, shard) }) {
			continue
		}

		left, oldest, lost, err := e.outbox().Backlog(ctx, shard)
		if err != nil {
			return nil, err
		}

		g.Backlog += left
		g.Lost += lost
		if first, err := store.ReadEntry(oldest); err == nil {
			g.Lag = max(g.Lag, e.Now().Sub(first.At))
		}
	}

	return g, nil
}

// historyClock says that the retention of the history is not applied, as two clocks differ; empty if it is.
func (e *Engine) historyClock() string {
	if err := e.shipper.Refused(); err != nil {
		return err.Error() + ": the history keeps old entries"
	}
	return ""
}
