package engine

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"notifier/internal/config"
	"notifier/internal/fleet"
	"notifier/internal/keys"
	"notifier/internal/route"
)

// newFleet makes this instance's part in the fleet.
func (e *Engine) newFleet() error {
	about := fleet.About{Label: e.o.Instance, Version: e.o.Version, Started: e.since.UTC(), Limits: e.o.Limits, Routes: map[string]string{}}
	for _, r := range e.o.Routes.All() {
		about.Routes[r.Name] = r.Digest()
	}
	e.ledger = newLedger(e.work)
	f, err := fleet.New(fleet.Options{Redis: e.store, About: about, Takeover: e.o.Takeover, Changed: e.fleetChanged, Figures: e.figures,
		Heard: e.heard, Gone: e.takeOver, Logger: e.o.Logger})
	if err != nil {
		return fmt.Errorf("%w: NOTIFIER_TAKEOVER: %w", ErrConfig, err)
	}
	e.fleet.Store(f)
	return nil
}

// joinWait is how long claims wait for the first sign of life. Without the
// others' signs this instance would take limits whole and work on everything.
const joinWait = time.Second

// join gives signs of life until the function that it returns is called. They
// outlive ctx: this instance lives until its last handler has ended.
func (e *Engine) join(ctx context.Context) (leave func()) {
	f := e.Fleet()
	signs, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var done sync.WaitGroup
	done.Go(func() { _ = f.Run(signs) }) // nil, always
	done.Go(func() { e.deliverMessages(signs) })
	late := time.NewTimer(joinWait)
	defer late.Stop()
	select {
	case <-f.Joined():
		e.sayLimits()
	case <-ctx.Done():
	case <-late.C:
		e.o.Logger.Warn("no sign of life has arrived yet: this instance begins as if it were alone")
	}
	return func() {
		cancel()
		done.Wait()
	}
}

// sayLimits tells what limits come to now that the others are known.
func (e *Engine) sayLimits() {
	n := e.Fleet().View().Living()
	for _, r := range e.o.Routes.All() {
		if k := r.Target.Kind; k != route.KindFixed && k != route.KindNotice {
			continue
		}
		line := fmt.Sprintf("route %s: %d to a host", r.Name, r.HostConcurrency)
		if r.Rate > 0 {
			line += fmt.Sprintf(" and %g/s", r.Rate)
		}
		switch {
		case e.o.Limits == config.LimitsInstance:
			line += ", for each instance"
		case n == 1:
			line += ", shared by all instances; 1 lives"
		default:
			line += fmt.Sprintf(", shared by %d instances", n)
		}
		e.o.Logger.Info(line)
	}
}

// fleetChanged hears of each new view.
func (e *Engine) fleetChanged(v *fleet.View) {
	// Who falls silent or begins to leave changes the view twice, and one that is new a
	// second time when it has told what it has.
	if said := v.String() + v.ID(); said != e.said {
		e.said = said
		e.o.Logger.Info("the fleet has changed", zap.Stringer("instance", v), zap.String("id", v.ID()))
	}
	e.sweepAll()
	e.dispatch.SetParts(e.parts(v))
	if e.o.Slots == nil {
		return
	}
	for _, r := range e.o.Routes.All() {
		e.dispatch.SetSlots(r.Prefix, e.o.Slots(r))
	}
}

// leaves reports whether a notice whose timer has expired is left to the
// instance that is preferred for it. An event of a route that adopts timers tells
// more than that a notice is due, so all take it.
func (e *Engine) leaves(r *route.Route, key string) bool {
	v := e.workers(r)
	if r.Adopt || !v.Even(r.Name) {
		return false
	}
	id := v.Preferred(key)
	if id == "" || id == v.ID() {
		return false
	}
	return !e.absent.Has(id) || e.rank(r, e.store.Space().Shard(key)) > 0
}

// owner is the id of the instance that is to claim a notice whose timer this one touches:
// itself where the one that is preferred is absent.
func (e *Engine) owner(r *route.Route, key string) string {
	v := e.workers(r)
	id := v.Preferred(key)
	if v.Takes() && e.absent.Has(id) {
		return v.ID()
	}
	return id
}

// leftBy hears that another instance has left a grace long what was touched for it.
func (e *Engine) leftBy(id string) {
	if id != e.Fleet().View().ID() && e.absent.Add(id) {
		e.o.Logger.Debug("an instance leaves what is due to it; for a second its part is claimed here", zap.String("id", id))
	}
}

// overlooked hears that those which come before this instance to look at a partition have
// not.
func (e *Engine) overlooked(r *route.Route, shard int) {
	if v := e.workers(r); v.Takes() && e.absent.Add(v.Before(r.Prefix, shard)...) {
		e.o.Logger.Debug("what was due has been left; for a second this instance looks in place of others", zap.String("route", r.Name), zap.Int("shard", shard))
		e.sweepAll()
	}
}

// maxGroup is how many notices that fall due together are for one instance, at most.
const maxGroup = 8

// group is how many they may be: a quarter of the slots that an instance has, so that
// none waits for a slot here while there are free ones elsewhere. Nothing is grouped
// where events come from other nodes than what is said of them, where they tell more
// than that a notice is due, and where one instance is alone or may see the route
// otherwise.
func (e *Engine) group(r *route.Route) int {
	v := e.workers(r)
	if r.Adopt || e.o.Conn.Masters != nil || !v.Known() || !v.Even(r.Name) || v.Living() == 1 {
		return 1
	}
	slots := min(r.Slots(), e.o.Concurrency)
	if e.o.Slots != nil {
		slots = min(slots, e.o.Slots(r))
	}
	return min(slots/4, maxGroup)
}

// mine reports whether a group of events that was touched for the instance of an id
// is this one's; it does not count where another instance may see the route otherwise.
func (e *Engine) mine(r *route.Route, id string) (mine, ok bool) {
	v := e.workers(r)
	return id == v.ID(), !r.Adopt && v.Known() && v.Even(r.Name)
}

// readsFlags reports whether this instance reads the notify flags of the node at addr
// with each heartbeat. Outside a cluster there is one node, which instances may reach by
// different addresses.
func (e *Engine) readsFlags(addr string) bool {
	v := e.Fleet().View()
	if e.o.Conn.Masters == nil {
		addr = ""
	}
	id := v.Preferred("flags of " + addr)
	return id == "" || id == v.ID() || e.absent.Has(id)
}

// rank is how many others come before this instance to look at a route and shard.
func (e *Engine) rank(r *route.Route, shard int) int {
	v := e.workers(r)
	if !v.Even(r.Name) {
		return 0
	}
	return v.RankForWork(r.Prefix, shard, &e.absent)
}

// workers is the fleet as far as the limits of a route have parts for it.
func (e *Engine) workers(r *route.Route) *fleet.View {
	v, at := e.Fleet().View(), e.few[r]
	if at == nil || v.Living() <= at.few {
		return v
	}
	if few := at.view.Load(); few != nil && few.Number() == v.Number() {
		return few
	}
	few := v.Among(r.Prefix, at.few)
	at.view.Store(few)
	return few
}

// few is among how few instances the work on a route is shared out.
type few struct {
	few  int
	view atomic.Pointer[fleet.View] // the last one that was reduced to these
}

// takeOverLater is how long a take-over waits at instances that are not
// preferred for it: who is has done it by then, unless it is dead too, or has no
// slots.
const takeOverLater = time.Second

// takeOver has the claims of an instance that is gone claimed anew.
func (e *Engine) takeOver(id string) {
	var later []keys.Partition
	for prefix, shards := range e.sweepers.all() {
		v := e.workers(e.o.Routes.Prefix(prefix))
		for shard := range shards {
			p := keys.Partition{Prefix: prefix, Shard: shard}
			if v.PrefersWork(prefix, shard) {
				e.dispatch.TakeOver(id, p)
			} else {
				later = append(later, p)
			}
		}
	}
	time.AfterFunc(takeOverLater, func() {
		for _, p := range later {
			e.dispatch.TakeOver(id, p)
		}
	})
}

// Fleet is this instance's part in the fleet; nil before the engine has begun.
func (e *Engine) Fleet() *fleet.Fleet { return e.fleet.Load() }

// Instances lists who lives.
func (e *Engine) Instances(ctx context.Context) ([]fleet.Instance, error) {
	if err := e.known(ctx); err != nil {
		return nil, err
	}
	return fleet.List(ctx, e.store)
}

// Self is this instance's id; empty before the engine has begun.
func (e *Engine) Self() string { return e.Fleet().ID() }

// waiting is how many hosts of a route wait for slots.
func (e *Engine) waiting(r *route.Route) int {
	if e.o.Waiting == nil {
		return 0
	}
	return e.o.Waiting(r)
}
