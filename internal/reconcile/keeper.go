package reconcile

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"notifier/internal/keys"
	"notifier/internal/route"
)

// Shelf is what a Keeper needs of Redis.
type Shelf interface {
	Trim(ctx context.Context, prefix string, shard, n int, young time.Duration) (int, error)
	Prefixes(ctx context.Context) ([]string, error)
	Register(ctx context.Context, prefixes []string) error
	Forget(ctx context.Context, prefix string) error
	Kept(ctx context.Context, prefix string, shard int, cursor uint64, n int64) ([]string, uint64, error)
	Rehome(ctx context.Context, from, to string, shard int, ks []string) (int, error)
	Paused(ctx context.Context) ([]string, error)
}

// Keeper does what is not urgent. Every instance runs one; their steps are
// atomic scripts and do not disturb one another.
type Keeper struct {
	shelf     Shelf
	routes    *route.Table
	shards    int
	setPaused func(paused func(prefix string) bool)
	moved     func(prefix string, shard int)
	logger    *zap.Logger

	recheck chan struct{}
	orphans atomic.Int64
	said    map[string]bool // prefixes whose orphans were reported
	parted  map[string]bool // prefixes that hold nothing which a longer one covers
}

// NewKeeper makes a Keeper. SetPaused hears which routes are paused, and moved
// of routes that notices were moved to.
func NewKeeper(
	s Shelf, routes *route.Table, shards int, setPaused func(func(string) bool), moved func(string, int), logger *zap.Logger,
) *Keeper {
	return &Keeper{shelf: s, routes: routes, shards: shards, setPaused: setPaused, moved: moved, logger: logger,
		recheck: make(chan struct{}, 1), said: map[string]bool{}, parted: map[string]bool{}}
}

// Recheck lets it ask at once which routes are paused.
func (k *Keeper) Recheck() {
	select {
	case k.recheck <- struct{}{}:
	default:
	}
}

// Orphans is how many notices lie under prefixes that no route covers.
func (k *Keeper) Orphans() int64 { return k.orphans.Load() }

// The Keeper's intervals. Jitter keeps instances apart.
const (
	pausedEvery = 5 * time.Second
	pausedRetry = time.Second // after it could not be read: until it was once, nothing is claimed
	tidyEvery   = 30 * time.Second
	step        = 500 // notices a call
	// adoptedFor is how long the settled notices of a route that adopts are kept
	// however many they are: the expired event of a timer that is settled
	// already is told from one that was never adopted by what is kept.
	adoptedFor = 2 * time.Minute
)

// Run keeps house until ctx ends, and returns nil.
func (k *Keeper) Run(ctx context.Context) error {
	tidied, failing := time.Time{}, false
	for {
		wait := pausedEvery + rand.N(pausedEvery/4)
		if err := k.followPaused(ctx); err != nil {
			if !failing && ctx.Err() == nil {
				k.logger.Warn("cannot read which routes are paused; it is repeated, and what was read before holds", zap.Error(err))
			}
			failing, wait = true, pausedRetry
		} else if failing = false; time.Since(tidied) > tidyEvery {
			if err := k.Tidy(ctx); err != nil && ctx.Err() == nil {
				k.logger.Warn("tidying failed; it is repeated", zap.Error(err))
			}
			tidied = time.Now()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-k.recheck:
		case <-time.After(wait):
		}
	}
}

func (k *Keeper) followPaused(ctx context.Context) error {
	p, err := k.shelf.Paused(ctx)
	if err != nil {
		return err
	}
	k.setPaused(func(prefix string) bool { return slices.Contains(p, prefix) })
	return nil
}

// Tidy makes one round: trims what is settled, and rehomes what lies under
// prefixes that are gone.
func (k *Keeper) Tidy(ctx context.Context) error {
	var mine []string
	for _, r := range k.routes.All() {
		mine = append(mine, r.Prefix)
		young := time.Duration(0)
		if r.Adopt {
			young = adoptedFor
		}
		for shard := range k.shards {
			for {
				n, err := k.shelf.Trim(ctx, r.Prefix, shard, step, young)
				if err != nil {
					return err
				}
				if n < step {
					break
				}
			}
		}
	}
	if err := k.shelf.Register(ctx, mine); err != nil {
		return err
	}
	prefixes, err := k.shelf.Prefixes(ctx)
	if err != nil {
		return err
	}
	orphans := int64(0)
	for _, p := range prefixes {
		if k.routes.Prefix(p) != nil {
			if err := k.part(ctx, p); err != nil {
				return err
			}
			continue
		}
		left, err := k.rehome(ctx, p)
		if err != nil {
			return err
		}
		orphans += left
		if left == 0 {
			if err := k.shelf.Forget(ctx, p); err != nil {
				return err
			}
		} else if !k.said[p] {
			k.said[p] = true
			k.logger.Error("notices lie under a prefix that no route covers; configure a route for it",
				zap.String("prefix", p), zap.Int64("notices", left))
		}
	}
	k.orphans.Store(orphans)
	return nil
}

// part moves notices from a route to routes that were configured later and
// cover their keys more closely: there they are looked for, and an event hints
// at them there. It reads the whole route, so it is done once for each start.
func (k *Keeper) part(ctx context.Context, prefix string) error {
	if k.parted[prefix] {
		return nil
	}
	closer := func(r *route.Route) bool { return keys.HasPrefix(r.Prefix, prefix) }
	if slices.ContainsFunc(k.routes.All(), closer) {
		left, err := k.rehome(ctx, prefix)
		if err != nil || left > 0 { // what is claimed stays where it is until it is settled
			return err
		}
	}
	k.parted[prefix] = true
	return nil
}

// rehome moves what it can from a prefix, and says how many are left that
// should not be there.
func (k *Keeper) rehome(ctx context.Context, from string) (left int64, err error) {
	for shard := range k.shards {
		cursor := uint64(0)
		for {
			ks, next, err := k.shelf.Kept(ctx, from, shard, cursor, step)
			if err != nil {
				return 0, err
			}
			to := map[string][]string{}
			for _, key := range ks {
				switch r := k.routes.Match(key); {
				case r == nil:
					left++
				case r.Prefix != from:
					to[r.Prefix] = append(to[r.Prefix], key)
				}
			}
			for prefix, moving := range to {
				n, err := k.shelf.Rehome(ctx, from, prefix, shard, moving)
				if err != nil {
					return 0, err
				}
				left += int64(len(moving) - n)
				if n > 0 {
					k.logger.Info("moved notices to the route that covers them now",
						zap.String("from", from), zap.String("to", prefix), zap.Int("notices", n))
					k.moved(prefix, shard)
				}
			}
			if cursor = next; cursor == 0 {
				break
			}
		}
	}
	return left, nil
}
