package engine

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"notifier/internal/keys"
	"notifier/internal/move"
	"notifier/internal/pace"
	"notifier/internal/reconcile"
	"notifier/internal/store"
	"notifier/internal/wire"
)

// sweepers are the sweepers by prefix and shard, including old shards. Shards can be added at any
// time.
type sweepers struct {
	by   atomic.Pointer[map[string][]*reconcile.Sweeper]
	mu   sync.Mutex    // of grow
	more chan struct{} // has one entry when new sweepers are not started yet

	failures pace.Loops
}

func newSweepers() *sweepers { return &sweepers{more: make(chan struct{}, 1)} }

func (s *sweepers) all() map[string][]*reconcile.Sweeper {
	if by := s.by.Load(); by != nil {
		return *by
	}
	return nil
}

// Now implements fleet.Sweeps.
func (s *sweepers) Now() {
	for _, shards := range s.all() {
		for _, one := range shards {
			one.Now()
		}
	}
}

// grow creates the missing sweepers of each prefix with part.
func (s *sweepers) grow(prefixes []string, shards int, part func(p keys.Partition) *reconcile.Sweeper) {
	s.mu.Lock()
	defer s.mu.Unlock()
	by := map[string][]*reconcile.Sweeper{}
	for _, prefix := range prefixes {
		list := append([]*reconcile.Sweeper(nil), s.all()[prefix]...)
		for shard := len(list); shard < shards; shard++ {
			list = append(list, part(keys.Partition{Prefix: prefix, Shard: shard}))
		}

		by[prefix] = list
	}

	s.by.Store(&by)

	select {
	case s.more <- struct{}{}:
	default:
	}
}

// Run runs all sweepers, including new ones, until ctx ends, and returns nil.
func (s *sweepers) Run(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	started := map[*reconcile.Sweeper]bool{}
	for {
		for _, shards := range s.all() {
			for _, one := range shards {
				if !started[one] {
					started[one] = true
					running.Go(func() { _ = one.Run(ctx) }) // always nil
				}
			}
		}

		select {
		case <-ctx.Done():
			return nil
		case <-s.more:
		}
	}
}

// sweepMore creates the sweepers of new shards.
func (e *Engine) sweepMore() {
	var prefixes []string
	for _, r := range e.o.Routes.All() {
		prefixes = append(prefixes, r.Prefix)
	}

	e.sweepers.grow(prefixes, e.store.Space().Places(), e.newSweeper)
}

func (e *Engine) newSweeper(p keys.Partition) *reconcile.Sweeper {
	return reconcile.NewSweeper(reconcile.SweeperOptions{Store: e.looks, Dispatch: claimer{e.dispatch, e.store.Layout}, Partition: p,
		Events: events{e}, Grace: e.o.Grace, Assignment: e.assignment, Peers: e.assignment, Begun: e.since, Alarm: e.o.Alarm, Logger: e.o.Logger,
		Failures: &e.sweepers.failures, Ticker: ticker{e}})
}

// claimer sweeps an old shard without the grace, since it has no events.
type claimer struct {
	reconcile.Claimer
	events interface{ HasEvents(shard int) bool } // *store.Layout
}

// Sweep implements reconcile.Claimer.
func (c claimer) Sweep(p keys.Partition) {
	if !c.events.HasEvents(p.Shard) {
		c.SweepDue(p)
		return
	}
	c.Claimer.Sweep(p)
}

// grow is called when new shards replace the current ones.
func (e *Engine) grow(places int) (grown func()) {
	e.dispatch.Grow(places)
	if e.shipper != nil {
		e.shipper.Grow(places)
	}

	return func() {
		e.sweepMore()
		e.dispatch.SetParts(e.assignment.Parts())
		e.janitor.Check()
		e.checkShards()
		now := e.store.Space().Now()
		e.o.Logger.Info("new shards are in use; the notices of old shards are delivered there and moved",
			zap.Int("shards", now.Shards), zap.Strings("tags", now.Tags), zap.Int("former", now.First()))
	}
}

// How often to check for new shards without a notification, and whether old shards still hold
// notices.
const (
	placesEvery = 20 * time.Second
	movingEvery = time.Second // while an old shard holds notices that can move now
)

// checkShards wakes tendShards.
func (e *Engine) checkShards() {
	select {
	case e.shardsChanged <- struct{}{}:
	default:
	}
}

// tendShards detects new shards, and moves the notices of old shards to them.
func (e *Engine) tendShards(ctx context.Context) error {
	moving := move.On(e.store)
	mover := &move.Mover{From: moving, To: moving, Part: e.assignment, Tracer: e.o.Tracer}
	for failing := false; ; {
		wait := placesEvery + rand.N(placesEvery/4)
		moved, err := e.tendOnce(ctx, mover)
		if moved {
			wait = movingEvery
		}

		if err != nil && ctx.Err() == nil && !failing && !errors.Is(err, wire.ErrUnavailable) {
			e.o.Logger.Warn("cannot move notices out of old shards, retrying", zap.Error(err))
		}

		failing = err != nil

		select {
		case <-ctx.Done():
			return nil
		case <-e.shardsChanged:
		case <-time.After(wait):
		}
	}
}

// tendOnce makes one pass over the old shards. It reports whether notices moved.
func (e *Engine) tendOnce(ctx context.Context, mover *move.Mover) (moved bool, err error) {
	r, err := e.drainOld(ctx, mover)
	if r.Moved > 0 {
		e.o.Logger.Info("moved notices out of old shards", zap.Int("notices", r.Moved), zap.Int("stay_for_now", r.Held.All()))
	}

	return r.Moved > 0, err
}

// drainOld makes one pass over the old shards, unless a reshard command does so.
func (e *Engine) drainOld(ctx context.Context, mover *move.Mover) (r move.Result, err error) {
	if left, err := e.store.Layout.Drained(ctx, e.assignment.Drains); err != nil || left == 0 {
		return r, err
	}
	if busy, err := move.On(e.store).IsHeld(ctx); err != nil || busy {
		return r, err
	}

	return mover.Pass(ctx)
}

// setSide logs the role of this Redis in a migration.
func (e *Engine) setSide(side store.Side) {
	e.o.Logger.Info(sideText[side.State], zap.String("side", string(side.State)), zap.String("migration", side.ID))
}

var sideText = map[store.SideState]string{
	store.SideOpen:    "all notices have moved to this Redis; it accepts all calls",
	store.SideLeaving: "notices are moving to another Redis; calls on moved notices are answered with 503 moved",
	store.SideLeft: "the notices of this Redis have moved to another one: calls that schedule or change notices are answered with 503 " +
		"moved; remaining notices are delivered and reported here",
	store.SideComing: "notices are moving to this Redis and are delivered here; calls that schedule or change notices are answered " +
		"with 503 moved until all have moved",
	store.SideOpened: "this Redis accepts calls; those on notices that have not moved yet are answered with 503 moved",
}

// watcher processes changes of the layout.
type watcher struct{ *Engine }

// SideChanged implements [store.Watcher].
func (w watcher) SideChanged(side store.Side) { w.setSide(side) }

// Grow implements [store.Watcher].
func (w watcher) Grow(places int) (grown func()) { return w.grow(places) }

// LayoutChanged implements [store.Watcher].
func (w watcher) LayoutChanged(err error) {
	if err == nil {
		w.o.Logger.Info("the data in Redis have the expected layout again")
		return
	}
	if w.isOpen() {
		w.o.Logger.Error("Redis now has data of another layout, writing nothing", zap.Error(err))
	}
}
