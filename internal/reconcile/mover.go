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
	Prefixes() []string
	Holds(ctx context.Context, shard int, prefixes []string) (bool, error)
	// Unsettled counts what is pending or dead.
	Unsettled(ctx context.Context, p keys.Partition) (int64, error)
	Kept(ctx context.Context, p keys.Partition, cursor uint64, n int64) ([]string, uint64, error)
	Rehome(ctx context.Context, from keys.Partition, to string, ks []string) (moved int, stuck []string, err error)
}

const (
	// separateShare bounds what separating takes of the time: a fiftieth.
	separateShare = 50
	// maxReported bounds how much is remembered of what the log was told.
	maxReported = 1000
)

// mover moves notices to the routes that their keys belong to.
type mover struct {
	store  Rehomer
	routes *route.Table
	shards Shards
	work   Work
	logger *zap.Logger

	orphans      atomic.Int64
	reported     map[string]bool // prefixes whose orphans were reported, and keys that are stuck
	separated    map[string]bool // prefixes that hold nothing which a longer one covers
	nextSeparate time.Time       // nothing is separated before, so that it does not take Redis's time
}

func newMover(o JanitorOptions) *mover {
	return &mover{store: o.Store, routes: o.Routes, shards: o.Shards, work: o.Work, logger: o.Logger,
		reported: map[string]bool{}, separated: map[string]bool{}}
}

// empty moves what lies under prefixes that no instance serves, and counts what
// cannot be moved. No prefix is ever forgotten: whoever has an old configuration,
// or a copy of deploy/schedule.lua, may write there again.
func (m *mover) empty(ctx context.Context, unserved []string) error {
	orphans := int64(0)
	var failed []error
	for shard := range m.shards.Places() {
		if len(unserved) == 0 {
			break
		}
		n, err := m.emptyShard(ctx, shard, unserved)
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

// emptyShard does so with one shard.
func (m *mover) emptyShard(ctx context.Context, shard int, unserved []string) (orphans int64, _ error) {
	some, err := m.store.Holds(ctx, shard, unserved)
	if err != nil || !some {
		return 0, err
	}
	for _, p := range unserved {
		at := keys.Partition{Prefix: p, Shard: shard}
		left, err := m.rehome(ctx, at)
		if err != nil {
			return orphans, err
		}
		if left == 0 {
			continue
		}
		live, err := m.store.Unsettled(ctx, at)
		if err != nil {
			return orphans, err
		}
		if live < left { // what is settled waits for the end of its retention and for nobody
			if err := trim(ctx, m.store, shard, []store.Trim{{Prefix: p}}); err != nil {
				return orphans, err
			}
		}
		orphans += live
		if live > 0 && !m.reported[p] {
			m.reported[p] = true
			m.logger.Error("notices lie under a prefix that no route covers, or where those cannot be put that do; see NotifierOrphans in "+
				"docs/runbook.md",
				zap.String("prefix", p), zap.Int64("notices", live))
		}
	}
	return orphans, nil
}

// separate moves notices from a route to routes of longer prefixes, which cover
// their keys more closely: there an event hints at them, and they are delivered
// as that route says. Those that were scheduled before the other route was
// configured lie here, and those that instances without it schedule. It reads the
// whole route, so it is done only at the start, while instances of other
// configurations live, and once after that.
func (m *mover) separate(ctx context.Context, prefix string) error {
	closer := func(r *route.Route) bool { return keys.HasPrefix(r.Prefix, prefix) }
	if m.separated[prefix] || !slices.ContainsFunc(m.routes.All(), closer) || time.Now().Before(m.nextSeparate) {
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
	m.separated[prefix] = left == 0 // what is claimed stays where it is until it is settled
	return nil
}

// rehome moves what it can from a partition, and says how many are left that
// should not be there.
func (m *mover) rehome(ctx context.Context, from keys.Partition) (left int64, err error) {
	cursor := uint64(0)
	for {
		ks, next, err := m.store.Kept(ctx, from, cursor, batch)
		if err != nil {
			return 0, err
		}
		to := map[string][]string{}
		for _, key := range ks {
			switch r := m.routes.Match(key); {
			case r == nil:
				left++
			case r.Prefix != from.Prefix:
				to[r.Prefix] = append(to[r.Prefix], key)
			}
		}
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

// move moves some notices of a partition to another prefix, and says how many it
// could.
func (m *mover) move(ctx context.Context, from keys.Partition, to string, ks []string) (moved int, err error) {
	moved, stuck, err := m.store.Rehome(ctx, from, to, ks)
	if err != nil {
		return 0, err
	}
	for _, key := range stuck {
		if !m.reported[key] && len(m.reported) < maxReported {
			m.reported[key] = true
			m.logger.Error("two notices of one key, with different contents, lie under two prefixes; the second waits for the end of the first",
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
