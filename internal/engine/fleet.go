package engine

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"go.uber.org/zap"

	"notifier/internal/fleet"
	"notifier/internal/keys"
	"notifier/internal/route"
)

// newFleet creates this instance's Fleet. With an error, which wraps ErrConfig, the returned Fleet
// reclaims no claims.
func (e *Engine) newFleet() (*fleet.Fleet, error) {
	about := fleet.About{Label: e.o.Instance, Version: e.o.Version, Started: e.since.UTC(), Limits: e.o.Limits, Routes: map[string]string{},
		Prefixes: map[string]string{}, FollowsRecorded: true, Forgets: true}
	for _, r := range e.o.Routes.All() {
		about.Routes[r.Name], about.Prefixes[r.Name] = r.Digest(), r.Prefix
	}

	about.Worker = len(about.Routes) > 0 && len(e.handles()) == len(about.Routes)
	about.Keys, about.Signing = e.o.Routes.KeyIDs()
	if e.o.SealKeys != nil {
		about.SealKeys = e.o.SealKeys.IDs()
	}

	o := fleet.Options{Redis: e.heartbeats(), About: about, Takeover: e.o.Takeover, Clock: e.store.Wire().Clock, Host: member{e},
		Logger: e.o.Logger}
	f, err := fleet.New(o)
	if err == nil {
		return f, nil
	}

	o.Takeover = 0
	f, _ = fleet.New(o) // a takeover of 0 is always valid
	return f, fmt.Errorf("%w: NOTIFIER_TAKEOVER: %w", ErrConfig, err)
}

// member is this process as a member of the fleet.
type member struct{ *Engine }

// Figures implements [fleet.Host].
func (m member) Figures() []byte { return m.figures() }

// Changed implements [fleet.Host].
func (m member) Changed(v *fleet.View) { m.fleetChanged(v) }

// Dead implements [fleet.Host].
func (m member) Dead(id string) { m.takeOver(id) }

// Tapped implements [fleet.Host].
func (m member) Tapped(taps []string) { m.o.Taps.Watch(taps, m.alive()) }

// Receivers implements [fleet.Host]. It covers messages that were lost on the wake channel.
func (m member) Receivers(version string) {
	if n, err := strconv.ParseInt(version, 10, 64); err == nil && n > m.holds.Version() {
		m.janitor.Check()
	}
}

// Received implements [fleet.Host].
func (m member) Received(from, text string) { m.received(from, text) }

// joinWait is how long claims wait for the first heartbeats. Without them this instance would use
// the whole limits and all work.
const joinWait = time.Second

// join publishes heartbeats until leave is called. They continue after ctx ends: this instance is
// alive until its last handler has ended.
func (e *Engine) join(ctx context.Context) (leave func()) {
	f := e.fleet
	signs, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var done sync.WaitGroup
	done.Go(func() { _ = f.Run(signs) }) // always nil
	done.Go(func() { e.deliverMessages(signs) })
	late := time.NewTimer(joinWait)
	defer late.Stop()
	select {
	case <-f.Joined():
		e.logLimits()
	case <-ctx.Done():
	case <-late.C:
		e.o.Logger.Warn("no heartbeat received yet, starting as a single instance")
	}

	return func() {
		cancel()
		done.Wait()
	}
}

// logLimits logs the effective limits once the other instances are known.
func (e *Engine) logLimits() {
	n := e.fleet.View().Alive()
	for _, r := range e.o.Routes.All() {
		if k := r.Target.Kind; k != route.KindFixed && k != route.KindNotice {
			continue
		}

		line := fmt.Sprintf("route %s: %d to a host", r.Name, r.HostConcurrency)
		if r.Rate > 0 {
			line += fmt.Sprintf(" and %g/s", r.Rate)
		}

		switch {
		case e.o.Limits == route.LimitsInstance:
			line += ", for each instance"
		case n == 1:
			line += ", shared by all instances (1 alive)"
		default:
			line += fmt.Sprintf(", shared by %d instances", n)
		}

		e.o.Logger.Info(line)
	}
}

// fleetChanged processes a new view.
func (e *Engine) fleetChanged(v *fleet.View) {
	// Several views in a row may have the same text, for example when a new instance publishes its
	// first figures.
	if said := v.String() + v.ID(); said != e.logged {
		e.logged = said
		e.o.Logger.Info("the fleet has changed", zap.Stringer("instance", v), zap.String("id", v.ID()))
	}

	e.compareHandlers(v)
	e.dispatch.CheckLeases()
	e.sweepers.Now()
	e.dispatch.SetParts(e.assignment.Parts())
	if e.o.Hosts == nil {
		return
	}

	for _, r := range e.o.Routes.All() {
		e.dispatch.SetSlots(r.Prefix, e.o.Hosts.Slots(r))
	}
}

// takeOverLater is the delay of a reclaim at instances that are not preferred for it. The preferred
// one has done it by then, unless it is dead too or has no slots.
const takeOverLater = time.Second

// takeOver reclaims the claims of a dead instance.
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

// Fleet returns this instance's Fleet.
func (e *Engine) Fleet() *fleet.Fleet { return e.fleet }

// Instances returns the known instances.
func (e *Engine) Instances(ctx context.Context) ([]fleet.Instance, error) {
	if err := e.known(ctx); err != nil {
		return nil, err
	}
	return fleet.List(ctx, e.heartbeats())
}

// alive returns the number of alive instances, including this one.
func (e *Engine) alive() int { return e.fleet.View().Alive() }

// Self returns this instance's id.
func (e *Engine) Self() string { return e.fleet.ID() }

// waiting returns the number of hosts of a route that wait for slots.
func (e *Engine) waiting(r *route.Route) int {
	if e.o.Hosts == nil {
		return 0
	}
	return e.o.Hosts.Waiting(r)
}

// heartbeats returns the store of heartbeats in Redis.
func (e *Engine) heartbeats() *fleet.Store { return fleet.NewStore(e.store.Layout) }
