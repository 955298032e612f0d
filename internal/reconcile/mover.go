package reconcile

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"notifier/internal/keys"
	"notifier/internal/route"
	"notifier/internal/store"
)

// Rehomer moves notices from one prefix to another.
type Rehomer interface {
	Trimmer
	// Holds reports whether any of the prefixes has notices, or definitions of recurring ones, in a shard.
	Holds(ctx context.Context, shard int, prefixes []string) (bool, error)
	// Unsettled counts the pending and dead notices of a partition.
	Unsettled(ctx context.Context, p keys.Partition) (int64, error)
	// Rehome moves notices of a partition to another prefix.
	Rehome(ctx context.Context, from keys.Partition, to string, ks []string) (moved int, stuck []string, err error)
	// Defined reads a page of the keys of recurring notices that are defined in a partition, as ScanKeys does for notices.
	Defined(ctx context.Context, p keys.Partition, cursor uint64) (ks []string, next uint64, err error)
	// Redefine moves definitions of a partition to another prefix.
	Redefine(ctx context.Context, from keys.Partition, to string, ks []string) error
}

const (
	// separateShare limits separate to one fiftieth of the time.
	separateShare = 50
	// maxReported bounds the memory of messages that were logged.
	maxReported = 1000
)

// mover moves notices to the routes that their keys belong to.
type mover struct {
	store  Rehomer
	layout JanitorLayout
	routes *route.Table
	shards Shards
	work   Work
	logger *zap.Logger

	orphans      atomic.Int64
	reported     map[string]bool // prefixes whose orphans were logged, and keys whose conflict was logged
	separated    map[string]bool // prefixes without notices of longer ones
	nextSeparate time.Time       // separate waits until then, to leave Redis's time to others
}

func newMover(o JanitorOptions) *mover {
	return &mover{store: o.Store, layout: o.Layout, routes: o.Routes, shards: o.Shards, work: o.Work, logger: o.Logger,
		reported: map[string]bool{}, separated: map[string]bool{}}
}

// drain moves notices from the unserved prefixes to the routes that match their keys. An unserved prefix is one that
// no alive instance has a route for. Pending and dead notices that no route matches are counted as orphans.
func (m *mover) drain(ctx context.Context, unserved []string) error {
	orphans := int64(0)
	var failed []error
	for shard := range m.shards.Places() {
		if len(unserved) == 0 {
			break
		}

		n, err := m.drainShard(ctx, shard, unserved)
		if err != nil {
			failed = append(failed, err)
		}

		orphans += n
	}

	if len(failed) == 0 {
		m.orphans.Store(orphans)
	}

	return errors.Join(failed...)
}

// drainShard moves the notices of one shard and returns how many unsettled ones it could not move.
func (m *mover) drainShard(ctx context.Context, shard int, unserved []string) (orphans int64, _ error) {
	some, err := m.store.Holds(ctx, shard, unserved)
	if err != nil || !some {
		return 0, err
	}

	for _, p := range unserved {
		n, err := m.drainPartition(ctx, keys.Partition{Prefix: p, Shard: shard})
		orphans += n
		if err != nil {
			return orphans, err
		}
	}

	return orphans, nil
}

func (m *mover) drainPartition(ctx context.Context, at keys.Partition) (orphans int64, _ error) {
	left, err := m.rehome(ctx, at)
	if err != nil || left == 0 {
		return 0, err
	}

	orphans, err = m.store.Unsettled(ctx, at)
	if err != nil {
		return 0, err
	}

	if orphans < left { // the settled ones need no route, only the end of their retention
		if err := trim(ctx, m.store, at.Shard, []store.Trim{{Prefix: at.Prefix}}); err != nil {
			return 0, err
		}
	}

	if orphans > 0 && !m.reported[at.Prefix] {
		m.reported[at.Prefix] = true
		m.logger.Error("notices are stored under a prefix without a route and cannot be moved; see NotifierOrphans in docs/runbook.md",
			zap.String("prefix", at.Prefix), zap.Int64("notices", orphans))
	}

	return orphans, nil
}

// separate moves notices from a prefix to routes with longer prefixes that match their keys. Such notices were
// scheduled before the longer route was configured, or by an instance without it.
func (m *mover) separate(ctx context.Context, prefix string) error {
	if m.separated[prefix] || !m.hasLonger(prefix) || time.Now().Before(m.nextSeparate) {
		return nil
	}

	from := time.Now()
	left := int64(0)
	for shard := range m.shards.Places() {
		n, err := m.rehome(ctx, keys.Partition{Prefix: prefix, Shard: shard})
		if err != nil {
			return err
		}

		left += n
	}

	m.nextSeparate = time.Now().Add(separateShare * time.Since(from))
	m.separated[prefix] = left == 0 // claimed notices stay until they are settled
	return nil
}

// hasLonger reports whether a route has a longer prefix.
func (m *mover) hasLonger(prefix string) bool {
	return slices.ContainsFunc(m.routes.All(), func(r *route.Route) bool { return keys.HasPrefix(r.Prefix, prefix) }) ||
		slices.ContainsFunc(m.routes.Recorded(), func(p string) bool { return keys.HasPrefix(p, prefix) })
}

// hasLongerOfOthers reports whether an instance without one of this instance's routes may store the notices of that
// route under the prefix of another one. All instances know the recorded prefixes.
func (m *mover) hasLongerOfOthers() bool {
	return slices.ContainsFunc(m.routes.All(), func(r *route.Route) bool {
		return slices.ContainsFunc(m.routes.All(), func(o *route.Route) bool { return keys.HasPrefix(o.Prefix, r.Prefix) })
	})
}

// rehome moves the notices of a partition that belong to other routes, and the definitions of recurring ones. It returns how many notices
// it could not move.
func (m *mover) rehome(ctx context.Context, from keys.Partition) (left int64, err error) {
	if err := m.redefine(ctx, from); err != nil {
		return 0, err
	}

	cursor := uint64(0)
	for {
		ks, next, err := m.layout.ScanKeys(ctx, from, cursor, batch)
		if err != nil {
			return 0, err
		}

		to, unrouted := m.byPrefix(from, ks)
		left += unrouted
		for prefix, moving := range to {
			moved, err := m.move(ctx, from, prefix, moving)
			if err != nil {
				return 0, err
			}

			left += int64(len(moving) - moved)
		}

		if cursor = next; cursor == 0 {
			return left, nil
		}
	}
}

// byPrefix groups keys of a partition by the prefix of another route that matches them. It returns how many keys no route matches.
func (m *mover) byPrefix(from keys.Partition, ks []string) (to map[string][]string, unrouted int64) {
	to = map[string][]string{}
	for _, key := range ks {
		switch r := m.routes.Match(key); {
		case r == nil:
			unrouted++
		case r.Prefix != from.Prefix:
			to[r.Prefix] = append(to[r.Prefix], key)
		}
	}

	return to, unrouted
}

// redefine moves the definitions of recurring notices of a partition that belong to other routes.
func (m *mover) redefine(ctx context.Context, from keys.Partition) error {
	for cursor := uint64(0); ; {
		ks, next, err := m.store.Defined(ctx, from, cursor)
		if err != nil {
			return err
		}

		to, _ := m.byPrefix(from, ks)
		for prefix, moving := range to {
			if err := m.store.Redefine(ctx, from, prefix, moving); err != nil {
				return err
			}

			m.logger.Info("moved definitions of recurring notices to the route that covers them now", zap.String("from", from.Prefix),
				zap.String("to", prefix), zap.Int("definitions", len(moving)))
		}

		if cursor = next; cursor == 0 {
			return nil
		}
	}
}

// move moves notices of a partition to another prefix and returns how many it has moved.
func (m *mover) move(ctx context.Context, from keys.Partition, to string, ks []string) (moved int, err error) {
	moved, stuck, err := m.store.Rehome(ctx, from, to, ks)
	if err != nil {
		return 0, err
	}

	for _, key := range stuck {
		if !m.reported[key] && len(m.reported) < maxReported {
			m.reported[key] = true
			m.logger.Error("two different notices of one key are stored under two prefixes, the second waits while the first is pending or dead",
				zap.String("key", key), zap.String("waits_under", from.Prefix), zap.String("first_under", to))
		}
	}

	if moved > 0 {
		m.logger.Info("moved notices to the route that covers them now",
			zap.String("from", from.Prefix), zap.String("to", to), zap.Int("notices", moved))
		m.work.Moved(from.Under(to))
	}

	return moved, nil
}
