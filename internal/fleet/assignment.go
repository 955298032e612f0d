package fleet

import (
	"sync/atomic"

	"go.uber.org/zap"

	"notifier/internal/keys"
	"notifier/internal/route"
)

// Limits returns this instance's part of the limits of a route.
type Limits interface {
	// Slots is how many attempts of a route may be in flight at this instance.
	Slots(*route.Route) int
	// MaxInstances is how many instances at most share the work on a route. 0 means all of them.
	MaxInstances(*route.Route) int
}

// Sweeper sweeps all partitions on request.
type Sweeper interface {
	// Now starts a sweep of all partitions without waiting for it.
	Now()
}

// AssignmentOptions configure an [Assignment].
type AssignmentOptions struct {
	Fleet  *Fleet
	Routes *route.Table
	Space  keys.Space
	// Limits divides the limits of routes. If nil, no limit reduces the number of instances that
	// share a route.
	Limits Limits
	// Concurrency is how many attempts of all routes may be in flight at this instance.
	Concurrency int
	// Cluster is true if expired events and group announcements come from different nodes.
	Cluster bool
	// Sweeper is called when this instance starts to serve an inactive instance's notices.
	Sweeper Sweeper
	Logger  *zap.Logger
}

// Assignment decides which instance claims a due notice. A hash of the notice's key selects the preferred instance,
// which normally claims the notice at its due time. If it does not, another instance usually does so a short time later
// (the grace, 50 ms by default). Assignment is safe for concurrent use.
type Assignment struct {
	o AssignmentOptions
	// inactive are the instances that did not claim their notices in time. For a second, the first active instance in
	// the ranking ([Assignment.Rank]) also claims the notices for which they are preferred.
	inactive inactivePeers
	subsets  map[*route.Route]*subset
}

// subset caches the view of the few instances that share a route whose limits are too small for
// all.
type subset struct {
	size int
	view atomic.Pointer[View] // the last one that was reduced to these
}

// NewAssignment returns the Assignment of an instance.
func NewAssignment(o AssignmentOptions) *Assignment {
	a := &Assignment{o: o, subsets: map[*route.Route]*subset{}}
	if o.Limits == nil {
		return a
	}

	for _, r := range o.Routes.All() {
		if n := o.Limits.MaxInstances(r); n > 0 {
			a.subsets[r] = &subset{size: n}
		}
	}

	return a
}

// View returns the current view of the fleet. Its Share and Rate are this instance's parts of
// limits.
func (a *Assignment) View() *View { return a.o.Fleet.View() }

// workers returns the view reduced to the instances that have the route and a part of its limits. A route
// that is not configured here has no limits.
func (a *Assignment) workers(r *route.Route) *View {
	v, sub := a.View().Of(r.Prefix), a.subsets[r]
	if sub == nil || v.Alive() <= sub.size {
		return v
	}

	if few := sub.view.Load(); few != nil && few.Number() == v.Number() {
		return few
	}

	few := v.Sharers(r.Prefix, sub.size)
	sub.view.Store(few)
	return few
}

// LeavesToPeer reports whether this instance ignores an expired event, because another instance is preferred for the
// notice with that key. It is always false on routes with adoption.
func (a *Assignment) LeavesToPeer(r *route.Route, key string) bool {
	v := a.workers(r)
	// On a route with adoption the event may be the only trace of a timer that has no notice yet.
	if r.Adopt || !v.SameConfig(r.Name) {
		return false
	}

	id := v.Preferred(key)
	if id == "" || id == v.ID() {
		return false
	}

	return !a.inactive.has(id) || a.rank(r, a.o.Space.Shard(key)) > 0
}

// OwnsGroup reports whether this instance should claim a group of notices that are due together. id is the instance to
// which a Redis message has assigned the group, and mine reports whether it is this one. If ok is false, the message
// must be ignored, and [Assignment.LeavesToPeer] decides for each notice.
func (a *Assignment) OwnsGroup(r *route.Route, id string) (mine, ok bool) {
	v := a.workers(r)
	// If another instance has configured the route differently, it may not deliver notices of the route.
	return id == v.ID(), !r.Adopt && v.Known() && v.SameConfig(r.Name)
}

// ReadsFlags reports whether this instance reads the notify flags of the node at addr every second.
// Outside a cluster there is one node, which instances may reach by different addresses.
func (a *Assignment) ReadsFlags(addr string) bool {
	if !a.o.Cluster {
		addr = ""
	}

	v := a.View()
	id := v.Preferred("flags of " + addr)
	return id == "" || id == v.ID() || a.inactive.has(id)
}

// Rank returns how many other instances sweep a partition before this one. It is 0 for the
// preferred instance. Inactive instances do not count.
func (a *Assignment) Rank(p keys.Partition) int { return a.rank(a.o.Routes.Prefix(p.Prefix), p.Shard) }

func (a *Assignment) rank(r *route.Route, shard int) int {
	v := a.workers(r)
	if !v.SameConfig(r.Name) {
		return 0
	}

	return v.RankForPartition(r.Prefix, shard, &a.inactive)
}

// Alive returns how many instances take new work, this one included.
func (a *Assignment) Alive() int { return a.View().Alive() }

// maxGroup bounds how many notices that are due together are assigned to one instance as a group.
const maxGroup = 8

// Group returns how many notices of one route and shard an instance may claim together if they are due at the same
// time. If it is less than 2, each notice is claimed alone. It is at most maxGroup, and at most a quarter of this
// instance's concurrency for the route, so that other instances get some notices too.
func (a *Assignment) Group(p keys.Partition) int {
	r := a.o.Routes.Prefix(p.Prefix)
	v := a.workers(r)
	if r.Adopt || a.o.Cluster || !v.Known() || !v.SameConfig(r.Name) || v.Alive() == 1 {
		// In a cluster, a group's announcement and events come from different nodes, in no fixed order. On a route
		// with adoption, the events may belong to timers that clients have set.
		return 1
	}

	slots := min(r.Slots(), a.o.Concurrency)
	if a.o.Limits != nil {
		slots = min(slots, a.o.Limits.Slots(r))
	}

	return min(slots/4, maxGroup)
}

// Owner returns the id of the instance that is to claim a notice whose timer this instance touches.
// It is this instance's if the preferred one is inactive.
func (a *Assignment) Owner(p keys.Partition, key string) string {
	v := a.workers(a.o.Routes.Prefix(p.Prefix))
	id := v.Preferred(key)
	if v.TakesWork() && a.inactive.has(id) {
		return v.ID()
	}

	return id
}

// NotClaimedBy records that an instance did not claim a notice within a grace after the touch.
func (a *Assignment) NotClaimedBy(id string) {
	if id != a.View().ID() && a.inactive.add(id) {
		a.o.Logger.Debug("peer is not claiming its due notices, claiming its share", zap.String("id", id), zap.Duration("for", inactiveFor))
	}
}

// NotSwept records that the instances ranked higher have not swept a partition.
func (a *Assignment) NotSwept(p keys.Partition) {
	v := a.workers(a.o.Routes.Prefix(p.Prefix))
	if v.TakesWork() && a.inactive.add(v.Before(p.Prefix, p.Shard)...) {
		a.o.Logger.Debug("peers are not claiming due notices, looking in their place",
			zap.String("prefix", p.Prefix), zap.Int("shard", p.Shard), zap.Duration("for", inactiveFor))
		a.o.Sweeper.Now()
	}
}

// Tidies reports whether this instance trims a partition. If instances have different routes for
// the partition, each of them trims it.
func (a *Assignment) Tidies(p keys.Partition) bool {
	v, r := a.View().Of(p.Prefix), a.o.Routes.Prefix(p.Prefix)
	return r == nil || !v.SameConfig(r.Name) || v.PrefersPartition(p.Prefix, p.Shard)
}

// Reclaims reports whether this instance is the first to reclaim a dead instance's claims in a
// partition.
func (a *Assignment) Reclaims(p keys.Partition) bool {
	return a.workers(a.o.Routes.Prefix(p.Prefix)).PrefersPartition(p.Prefix, p.Shard)
}

// Drains reports whether this instance moves the notices out of an old shard.
func (a *Assignment) Drains(shard int) bool { return a.View().PrefersPartition("", shard) }

// Parts returns the number of parts of a route's load: alive instances times shards. Old shards do
// not count, since they hold few notices.
func (a *Assignment) Parts() int { return a.Alive() * a.o.Space.Now().Shards }
