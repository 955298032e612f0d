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
	"notifier/internal/layout"
	"notifier/internal/move"
	"notifier/internal/reconcile"
	"notifier/internal/wire"
)

// sweepers are by prefix, then by shard, old ones included. There may come more at any time.
type sweepers struct {
	by   atomic.Pointer[map[string][]*reconcile.Sweeper]
	mu   sync.Mutex    // of grow
	more chan struct{} // has one entry when some are not started yet
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

// grow adds, for each prefix, the sweepers that part makes of the shards without one.
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

// Run runs all sweepers, and those that come, until ctx ends, and returns nil.
func (s *sweepers) Run(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	started := map[*reconcile.Sweeper]bool{}
	for {
		for _, shards := range s.all() {
			for _, one := range shards {
				if !started[one] {
					started[one] = true
					running.Go(func() { _ = one.Run(ctx) }) // nil, always
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

// sweepMore makes sweepers of the places that have none.
func (e *Engine) sweepMore() {
	var prefixes []string
	for _, r := range e.o.Routes.All() {
		prefixes = append(prefixes, r.Prefix)
	}
	e.sweepers.grow(prefixes, e.store.Space().Places(), e.newSweeper)
}

func (e *Engine) newSweeper(p keys.Partition) *reconcile.Sweeper {
	return reconcile.NewSweeper(reconcile.SweeperOptions{Store: e.looks, Dispatch: claimer{e.dispatch, e.store.Space()}, Partition: p, Events: events{e},
		Grace: e.o.Grace, Assignment: e.assignment, Absences: e.assignment, Begun: e.since, Alarm: e.o.Alarm, Logger: e.o.Logger})
}

// claimer sweeps an old shard without the grace, since it has no events.
type claimer struct {
	reconcile.Claimer
	space keys.Space
}

// Sweep implements reconcile.Claimer.
func (c claimer) Sweep(p keys.Partition) {
	if p.Shard < c.space.First() {
		c.SweepDue(p)
		return
	}
	c.Claimer.Sweep(p)
}

// grow hears that others take the place of the shards.
func (e *Engine) grow(places int) (grown func()) {
	e.dispatch.Grow(places)
	if e.shipper != nil {
		e.shipper.Grow(places)
	}
	return func() {
		e.sweepMore()
		e.dispatch.SetParts(e.assignment.Parts())
		e.janitor.Check()
		e.lookForPlaces()
		now := e.store.Space().Now()
		e.o.Logger.Info("the shards have been replaced by others; what the former ones hold is delivered from there, and moved",
			zap.Int("shards", now.Shards), zap.Strings("tags", now.Tags), zap.Int("former", now.First()))
	}
}

// How often it is looked whether there are other shards, where nobody says so, and
// whether former ones hold anything.
const (
	placesEvery = 20 * time.Second
	movingEvery = time.Second // while they hold what does not stay for a claim or a report
)

// lookForPlaces has both looked at soon.
func (e *Engine) lookForPlaces() {
	select {
	case e.places <- struct{}{}:
	default:
	}
}

// tendPlaces learns of other shards, and brings to them what former ones hold.
func (e *Engine) tendPlaces(ctx context.Context) error {
	mover := &move.Mover{From: e.store, To: e.store, Only: e.assignment.Tends, Tracer: e.o.Tracer}
	for failing := false; ; {
		wait := placesEvery + rand.N(placesEvery/4)
		err := e.store.Known(ctx)
		if err == nil && e.store.Space().First() > 0 {
			var r move.Result
			if r, err = e.empty(ctx, mover); r.Moved > 0 {
				wait = movingEvery
				e.o.Logger.Info("moved notices out of former shards", zap.Int("notices", r.Moved), zap.Int("stay_for_now", r.Held.All()))
			}
		}
		if err != nil && ctx.Err() == nil && !failing && !errors.Is(err, wire.ErrUnavailable) {
			e.o.Logger.Warn("the former shards could not be looked after; it is repeated", zap.Error(err))
		}
		failing = err != nil
		select {
		case <-ctx.Done():
			return nil
		case <-e.places:
		case <-time.After(wait):
		}
	}
}

// empty goes once through the former shards, unless somebody who runs a reshard does.
func (e *Engine) empty(ctx context.Context, mover *move.Mover) (r move.Result, err error) {
	if left, err := e.store.Drained(ctx, e.assignment.Tends); err != nil || left == 0 {
		return r, err
	}
	if busy, err := e.store.IsResharding(ctx); err != nil || busy {
		return r, err
	}
	return mover.Pass(ctx)
}

// setSide hears how this Redis stands to one that notices move to or from.
func (e *Engine) setSide(side layout.Side) {
	e.o.Logger.Info(sideText[side.State], zap.String("side", string(side.State)), zap.String("migration", side.ID))
}

var sideText = map[layout.SideState]string{
	layout.SideOpen:    "all notices have come from the other Redis; this one takes all calls",
	layout.SideLeaving: "notices are being moved to another Redis; what has left is answered with 503 moved, and all else as before",
	layout.SideLeft: "the notices of this Redis have moved to another one: calls that schedule or change notices are answered with 503 moved; " +
		"what is still here is delivered and reported here",
	layout.SideComing: "notices are being moved to this Redis: they are delivered from here, and calls that schedule or change notices are answered " +
		"with 503 moved until all have come",
	layout.SideOpened: "this Redis is open; calls about the few notices that are still to come from the other one are answered with 503 moved",
}
