package engine

import (
	"context"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"notifier/internal/config"
	"notifier/internal/fleet"
	"notifier/internal/keys"
	"notifier/internal/route"
)

// newFleet makes this instance's part in the fleet. With an error it is one that reclaims no
// claims, and the error wraps ErrConfig.
func (e *Engine) newFleet() (*fleet.Fleet, error) {
	about := fleet.About{Label: e.o.Instance, Version: e.o.Version, Started: e.since.UTC(), Limits: e.o.Limits, Routes: map[string]string{}}
	for _, r := range e.o.Routes.All() {
		about.Routes[r.Name] = r.Digest()
	}
	about.Keys, about.Signing = e.o.Routes.KeyIDs()
	o := fleet.Options{Redis: e.heartbeats(), About: about, Takeover: e.o.Takeover, Host: member{e}, Logger: e.o.Logger}
	f, err := fleet.New(o)
	if err == nil {
		return f, nil
	}

	o.Takeover = 0
	f, _ = fleet.New(o) // a takeover of 0 is never wrong
	return f, fmt.Errorf("%w: NOTIFIER_TAKEOVER: %w", ErrConfig, err)
}

// member is this process as an instance of the fleet.
type member struct{ *Engine }

// Figures implements [fleet.Host].
func (m member) Figures() []byte { return m.figures() }

// Changed implements [fleet.Host].
func (m member) Changed(v *fleet.View) { m.fleetChanged(v) }

// Gone implements [fleet.Host].
func (m member) Gone(id string) { m.takeOver(id) }

// Heard implements [fleet.Host].
func (m member) Heard(from, text string) { m.heard(from, text) }

// joinWait is how long claims wait for the first sign of life. Without the
// others' signs this instance would take limits whole and work on everything.
const joinWait = time.Second

// join gives signs of life until the function that it returns is called. They
// outlive ctx: this instance lives until its last handler has ended.
func (e *Engine) join(ctx context.Context) (leave func()) {
	f := e.fleet
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
	n := e.fleet.View().Living()
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
	e.sweepers.Now()
	e.dispatch.SetParts(e.assignment.Parts())
	if e.o.Hosts == nil {
		return
	}
	for _, r := range e.o.Routes.All() {
		e.dispatch.SetSlots(r.Prefix, e.o.Hosts.Slots(r))
	}
}

// takeOverLater is how long a take-over waits at instances that are not
// preferred for it: who is has done it by then, unless it is dead too, or has no
// slots.
const takeOverLater = time.Second

// takeOver has the claims of an instance that is gone claimed anew.
func (e *Engine) takeOver(id string) {
	var later []keys.Partition
	for prefix, shards := range e.sweepers.all() {
		for shard := range shards {
			p := keys.Partition{Prefix: prefix, Shard: shard}
			if e.assignment.Reclaims(p) {
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

// Fleet is this instance's part in the fleet.
func (e *Engine) Fleet() *fleet.Fleet { return e.fleet }

// Instances lists who lives.
func (e *Engine) Instances(ctx context.Context) ([]fleet.Instance, error) {
	if err := e.known(ctx); err != nil {
		return nil, err
	}
	return fleet.List(ctx, e.heartbeats())
}

// Self is this instance's id.
func (e *Engine) Self() string { return e.fleet.ID() }

// waiting is how many hosts of a route wait for slots.
func (e *Engine) waiting(r *route.Route) int {
	if e.o.Hosts == nil {
		return 0
	}
	return e.o.Hosts.Waiting(r)
}

// heartbeats are those in Redis.
func (e *Engine) heartbeats() *fleet.Store { return fleet.NewStore(e.store.Layout) }
