package fleet

import (
	"sync/atomic"

	"go.uber.org/zap"

	"notifier/internal/keys"
	"notifier/internal/route"
)

// Limits tell which part of the limits of a route this instance has.
type Limits interface {
	// Slots is how many attempts of a route may be in flight here, in the fleet as it is now.
	Slots(*route.Route) int
	// Few is among how many instances at most the work on a route is shared out; 0 = all.
	Few(*route.Route) int
}

// Sweeps are the looks at all partitions.
type Sweeps interface {
	// Now has all partitions looked at.
	Now()
}

// AssignmentOptions of an Assignment.
type AssignmentOptions struct {
	Fleet  *Fleet
	Routes *route.Table
	Space  keys.Space
	// Limits may be nil: each route's limits are its own, and shared by all instances.
	Limits Limits
	// Concurrency is how many attempts of all routes may be in flight here.
	Concurrency int
	// Cluster: events come from other nodes than the announcements of groups.
	Cluster bool
	// Sweeps are repeated when this instance takes the place of others.
	Sweeps Sweeps
	Logger *zap.Logger
}

// Assignment decides which instance does which part of the work: which notices are this
// instance's, for which another one is preferred, and when this one may help. Every
// instance decides by itself, from its own view of the fleet, and claims settle the
// differences: a wrong decision costs a grace, or a lost claim, and never a notice.
//
//	this instance is                          its notices      others' notices
//	preferred                                 at once          –
//	next in rank                              –                after one grace for each that comes before it
//	next to an absent one                     –                at once, for absentFor
//	retired, or without a part of the limits  –                last of all
//
// An instance is absent while it is found not to claim its due notices. It is safe for
// concurrent use.
type Assignment struct {
	o      AssignmentOptions
	absent absences
	few    map[*route.Route]*few
}

// few is among how few instances the work on a route is shared out.
type few struct {
	few  int
	view atomic.Pointer[View] // the last one that was reduced to these
}

// NewAssignment makes an Assignment.
func NewAssignment(o AssignmentOptions) *Assignment {
	a := &Assignment{o: o, few: map[*route.Route]*few{}}
	if o.Limits == nil {
		return a
	}
	for _, r := range o.Routes.All() {
		if n := o.Limits.Few(r); n > 0 {
			a.few[r] = &few{few: n}
		}
	}
	return a
}

// View is the fleet as it is known now. Its Share and Rate are this instance's parts of
// limits.
func (a *Assignment) View() *View { return a.o.Fleet.View() }

// workers is the fleet as far as the limits of a route have parts for it. A route that is
// not configured here has no limits.
func (a *Assignment) workers(r *route.Route) *View {
	v, at := a.View(), a.few[r]
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

// Leaves reports whether a notice whose timer has expired is left to the instance that is
// preferred for it. An event of a route that adopts timers tells more than that a notice is
// due, so all instances take it.
func (a *Assignment) Leaves(r *route.Route, key string) bool {
	v := a.workers(r)
	if r.Adopt || !v.Even(r.Name) {
		return false
	}
	id := v.Preferred(key)
	if id == "" || id == v.ID() {
		return false
	}
	return !a.absent.has(id) || a.rank(r, a.o.Space.Shard(key)) > 0
}

// ForGroup reports whether a group of events that was touched for the instance of an id is
// this one's; ok is false where another instance may see the route otherwise, and Leaves
// decides.
func (a *Assignment) ForGroup(r *route.Route, id string) (mine, ok bool) {
	v := a.workers(r)
	return id == v.ID(), !r.Adopt && v.Known() && v.Even(r.Name)
}

// ReadsFlags reports whether this instance reads the notify flags of the node at addr with
// each beat. Outside a cluster there is one node, which instances may reach by different
// addresses.
func (a *Assignment) ReadsFlags(addr string) bool {
	if !a.o.Cluster {
		addr = ""
	}
	v := a.View()
	id := v.Preferred("flags of " + addr)
	return id == "" || id == v.ID() || a.absent.has(id)
}

// Rank is how many other instances come before this one to look at a partition: 0 if this
// one is preferred.
func (a *Assignment) Rank(p keys.Partition) int { return a.rank(a.o.Routes.Prefix(p.Prefix), p.Shard) }

func (a *Assignment) rank(r *route.Route, shard int) int {
	v := a.workers(r)
	if !v.Even(r.Name) {
		return 0
	}
	return v.RankForWork(r.Prefix, shard, &a.absent)
}

// Living is how many instances take events, this one included.
func (a *Assignment) Living() int { return a.View().Living() }

// maxGroup is how many notices that fall due together are for one instance, at most.
const maxGroup = 8

// Group is how many notices of a partition that fall due together may be for one instance:
// a quarter of the slots that an instance has, so that none waits for a slot here while
// there are free ones elsewhere. Notices are not grouped where events come from other nodes
// than the announcements, where events tell more than that a notice is due, and where one
// instance is alone or may see the route otherwise.
func (a *Assignment) Group(p keys.Partition) int {
	r := a.o.Routes.Prefix(p.Prefix)
	v := a.workers(r)
	if r.Adopt || a.o.Cluster || !v.Known() || !v.Even(r.Name) || v.Living() == 1 {
		return 1
	}

	slots := min(r.Slots(), a.o.Concurrency)
	if a.o.Limits != nil {
		slots = min(slots, a.o.Limits.Slots(r))
	}
	return min(slots/4, maxGroup)
}

// Owner is the id of the instance that is to claim a notice whose timer this one touches:
// itself where the preferred one is absent.
func (a *Assignment) Owner(p keys.Partition, key string) string {
	v := a.workers(a.o.Routes.Prefix(p.Prefix))
	id := v.Preferred(key)
	if v.Takes() && a.absent.has(id) {
		return v.ID()
	}
	return id
}

// LeftBy notes that the instance of an id has not claimed, within a grace, a notice that
// was touched for it.
func (a *Assignment) LeftBy(id string) {
	if id != a.View().ID() && a.absent.add(id) {
		a.o.Logger.Debug("peer is not claiming its due notices, claiming its share", zap.String("id", id), zap.Duration("for", absentFor))
	}
}

// Overlooked notes that those who come before this instance have not looked at a partition.
func (a *Assignment) Overlooked(p keys.Partition) {
	v := a.workers(a.o.Routes.Prefix(p.Prefix))
	if v.Takes() && a.absent.add(v.Before(p.Prefix, p.Shard)...) {
		a.o.Logger.Debug("peers are not claiming due notices, looking in their place",
			zap.String("prefix", p.Prefix), zap.Int("shard", p.Shard), zap.Duration("for", absentFor))
		a.o.Sweeps.Now()
	}
}

// Tidies reports whether this instance trims a partition. A partition whose route other
// instances have otherwise, or not at all, is trimmed by each.
func (a *Assignment) Tidies(p keys.Partition) bool {
	v, r := a.View(), a.o.Routes.Prefix(p.Prefix)
	return r == nil || !v.Even(r.Name) || v.PrefersWork(p.Prefix, p.Shard)
}

// Reclaims reports whether this instance is the first to reclaim the claims of a dead one
// in a partition.
func (a *Assignment) Reclaims(p keys.Partition) bool {
	return a.workers(a.o.Routes.Prefix(p.Prefix)).PrefersWork(p.Prefix, p.Shard)
}

// Tends reports whether this instance moves the notices out of an old shard.
func (a *Assignment) Tends(shard int) bool { return a.View().PrefersWork("", shard) }

// Parts is into how many parts the load of a route falls: living instances times shards.
// Old shards do not count, since they hold few notices.
func (a *Assignment) Parts() int { return a.Living() * a.o.Space.Now().Shards }
