package fleet

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/cespare/xxhash/v2"
)

// View is the state of the fleet (the instances of the service) as read by one instance, the owner of the View. It says
// which instance is preferred for a piece of work, such as a notice, and how much of a limit the owner may use.
// A nil View gives its owner all work and all of each limit. A View does not change, and is safe for concurrent use.
type View struct {
	id string
	// number changes with the members.
	number uint64
	known  bool
	self   uint64
	// retired is true if the owner takes no new work: it is leaving, or has no part of the limit that
	// the view was reduced to.
	retired bool
	// ids are the ids of alive instances by their hashes.
	ids map[uint64]string
	// others are the other instances that take new work. holders are these and the leaving ones.
	others, holders []uint64
	// withoutEvents are those of others at which expired events do not arrive. selfWithoutEvents is
	// the same for the owner.
	withoutEvents     []uint64
	selfWithoutEvents bool
	// candidates are those of others that may be preferred. excluded is true if the owner may not
	// be preferred. choose sets both.
	candidates []uint64
	excluded   bool
	// noShare is true if the owner has no part of the limit that the view was reduced to.
	noShare      bool
	unresponsive int
	leaving      int
	// differs are the owner's routes that another instance has configured differently.
	differs map[string]bool
	// without are the instances that have no route with a prefix of the owner, by prefix. reduced are the views of the
	// other instances.
	without map[string][]uint64
	reduced map[string]*View
	// sealKeys are the service keys of those of others that have any, by id.
	sealKeys map[string][]string
}

// ID returns the owner's id.
func (v *View) ID() string {
	if v == nil {
		return ""
	}

	return v.id
}

// Of returns the view reduced to the instances that have a route with a prefix. Only these can deliver the notices under
// the prefix, so only these are preferred for them and share the limits of the route.
func (v *View) Of(prefix string) *View {
	if v == nil || v.reduced == nil {
		return v
	}

	if few := v.reduced[prefix]; few != nil {
		return few
	}

	return v
}

// lacking notes the owner's prefixes for which an instance has no route.
func (v *View) lacking(id uint64, m *member, owner *About) {
	for _, p := range owner.Prefixes {
		if m.lacks(p) {
			if v.without == nil {
				v.without = map[string][]uint64{}
			}

			v.without[p] = append(v.without[p], id)
		}
	}
}

// reduce sets the views that Of returns.
func (v *View) reduce() {
	if len(v.without) == 0 {
		return
	}

	v.reduced = make(map[string]*View, len(v.without))
	for p, without := range v.without {
		slices.Sort(without)
		lacks := func(id uint64) bool { return slices.Contains(without, id) }
		few := *v
		few.reduced = nil
		few.others = slices.DeleteFunc(slices.Clone(v.others), lacks)
		few.holders = slices.DeleteFunc(slices.Clone(v.holders), lacks)
		few.withoutEvents = slices.DeleteFunc(slices.Clone(v.withoutEvents), lacks)
		few.choose()
		v.reduced[p] = &few
	}
}

// add adds an alive instance to the view of owner.
func (v *View) add(id string, m *member, owner *About) {
	h := hashOf(id)
	v.ids[h] = id
	v.others = append(v.others, h)
	v.holders = append(v.holders, h)
	if m.heartbeat.NoEvents {
		v.withoutEvents = append(v.withoutEvents, h)
	}

	if len(m.sealKeys) > 0 {
		if v.sealKeys == nil {
			v.sealKeys = map[string][]string{}
		}

		v.sealKeys[id] = m.sealKeys
	}

	v.lacking(h, m, owner)
	for route, digest := range owner.Routes {
		if m.described && m.routes[route] != digest && !m.lacks(owner.Prefixes[route]) {
			if v.differs == nil {
				v.differs = map[string]bool{}
			}

			v.differs[route] = true
		}
	}
}

// choose sets the instances that may be preferred: all that take new work and receive expired
// events. If none receives events, all that take new work may be preferred.
func (v *View) choose() {
	v.candidates, v.excluded = v.others, v.retired
	if len(v.withoutEvents) == 0 && !v.selfWithoutEvents {
		return
	}

	hear := make([]uint64, 0, len(v.others))
	for _, o := range v.others {
		if !slices.Contains(v.withoutEvents, o) {
			hear = append(hear, o)
		}
	}

	if len(hear) > 0 || !v.retired && !v.selfWithoutEvents {
		v.candidates, v.excluded = hear, v.retired || v.selfWithoutEvents
	}
}

// Number identifies the members of a view. Callers that cache a result of a view compare it.
func (v *View) Number() uint64 {
	if v == nil {
		return 0
	}

	return v.number
}

// Known reports whether the members of the fleet are known.
func (v *View) Known() bool { return v != nil && v.known }

// SameConfig reports whether no other instance is known to have the route configured differently.
// If one has, it may not deliver notices of the route, so none is left to it.
func (v *View) SameConfig(route string) bool { return v == nil || !v.differs[route] }

// Alive returns how many instances take new work, the owner included. It is 1 before anything is
// known.
func (v *View) Alive() int {
	if v == nil {
		return 1
	}

	n := len(v.others)
	if !v.retired {
		n++
	}

	return max(1, n)
}

// SealKeys returns the service keys of sealed notices of each other instance that takes new work and has any.
func (v *View) SealKeys() [][]string { return slices.Collect(maps.Values(v.sealKeys)) }

// hashOf returns the hash of an instance's id or of another name. All instances must compute the
// same hash, so it has no random seed.
func hashOf(s string) uint64 { return xxhash.Sum64String(s) }

// weight combines a member's hash with a name's (the finalizer of splitmix64). The member with the highest weight is
// preferred, so when an instance joins or leaves, only its own work moves (rendezvous hashing).
func weight(member, thing uint64) uint64 {
	x := member ^ thing
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

// Prefers reports whether the owner is preferred for a name, such as a notice's key.
func (v *View) Prefers(name string) bool {
	if v == nil || !v.known {
		return true
	}

	return v.first(hashOf(name))
}

// PrefersPartition reports whether the owner is preferred for the sweeps of a route and shard.
func (v *View) PrefersPartition(route string, shard int) bool {
	if v == nil || !v.known {
		return true
	}

	return v.first(partitionHash(route, shard))
}

// RankForPartition returns how many active instances have a higher rank than the owner for the
// sweeps of a route and shard. It is 0 if the owner is preferred.
func (v *View) RankForPartition(route string, shard int, inactive *inactivePeers) int {
	if v == nil || !v.known {
		return 0
	}

	n := 0
	v.before(partitionHash(route, shard), func(id uint64) {
		if !inactive.has(v.ids[id]) {
			n++
		}
	})
	return n
}

// Before returns the ids of the instances that have a higher rank than the owner for the sweeps of
// a route and shard.
func (v *View) Before(route string, shard int) (ids []string) {
	if v == nil || !v.known {
		return nil
	}

	v.before(partitionHash(route, shard), func(id uint64) { ids = append(ids, v.ids[id]) })
	return ids
}

// before calls visit for each instance with a higher weight than the owner. An owner that takes no
// work is last.
func (v *View) before(thing uint64, visit func(id uint64)) {
	mine := weight(v.self, thing)
	for _, o := range v.candidates {
		if v.excluded || weight(o, thing) > mine {
			visit(o)
		}
	}
}

func partitionHash(route string, shard int) uint64 {
	return hashOf(route) + uint64(shard+1)*0x9e3779b97f4a7c15 // there are few shards
}

// TakesWork reports whether the owner takes new work. It does not if it is leaving, or if the view
// is reduced to other instances ([View.Sharers]).
func (v *View) TakesWork() bool { return v == nil || !v.retired }

// Preferred returns the id of the instance that is preferred for a name. It is empty while the
// fleet is unknown.
func (v *View) Preferred(name string) string {
	if v == nil || !v.known {
		return ""
	}

	thing := hashOf(name)
	if v.first(thing) {
		return v.id
	}

	best := v.candidates[0]
	for _, o := range v.candidates[1:] {
		if weight(o, thing) > weight(best, thing) {
			best = o
		}
	}

	return v.ids[best]
}

// IsAlive reports whether another instance with that id takes new work.
func (v *View) IsAlive(id string) bool {
	if v == nil || !v.known {
		return false
	}

	return slices.ContainsFunc(v.others, func(o uint64) bool { return v.ids[o] == id })
}

// first reports whether no instance has a higher weight than the owner.
func (v *View) first(thing uint64) bool {
	if v.excluded {
		return len(v.candidates) == 0
	}

	mine := weight(v.self, thing)
	for _, o := range v.candidates {
		if weight(o, thing) > mine {
			return false
		}
	}

	return true
}

// Share returns this instance's part of a limit on concurrency, such as the concurrent calls to a host. If all
// instances have the same view of the fleet, their parts sum up to the limit. If the limit cannot be divided evenly, a
// hash of name selects the instances that get one unit more. Others may get 0. name identifies the limit. A limit of 0
// or less means no limit, and is returned unchanged.
func (v *View) Share(name string, limit int) int {
	if v == nil || limit <= 0 || len(v.holders) == 0 {
		return limit
	}

	if v.noShare {
		return 0
	}

	n := len(v.holders) + 1
	share, over := limit/n, limit%n
	// name decides which instances get one more.
	if over > 0 && rank(v.self, v.holders, hashOf(name)) < over {
		share++
	}

	return share
}

// Rate returns this instance's part of a rate limit, in calls per second. The instances that take new work share the
// rate evenly. If there are more instances than calls per second, a hash of name selects those that get a part, and the
// others get 0. For example, of five instances with a rate of 3, three get 1. A leaving instance gets 0 if another one
// takes new work. name identifies the limit. A rate of 0 or less means no limit, and is returned unchanged.
func (v *View) Rate(name string, perSecond float64) float64 {
	switch {
	case v == nil || perSecond <= 0:
		return perSecond
	case v.noShare:
		return 0
	case len(v.others) == 0:
		return perSecond
	case v.retired:
		return 0
	}

	n := len(v.others) + 1
	// A part below one call per second would be of little use.
	if slow := max(1, math.Floor(perSecond)); slow < float64(n) {
		if rank(v.self, v.others, hashOf(name)) >= int(slow) {
			return 0
		}

		return perSecond / slow
	}

	return perSecond / float64(n)
}

// Sharers returns a view of only the instances that share a limit which is too small for all. For example, a limit of 3
// calls has 3 sharers, selected by a hash of name. If the owner is not one of them, [View.TakesWork] of the result is
// false. If the limit suffices for all instances, or is 0 or less (no limit), Sharers returns v. Limits that apply
// together, such as the concurrency and the rate of a host, must use the same name.
func (v *View) Sharers(name string, limit int) *View {
	if v == nil || limit <= 0 || v.Alive() <= limit {
		return v
	}

	// With different names, one instance could get only the rate, and another only the concurrency.
	thing := hashOf(name)
	order := slices.Clone(v.others)
	slices.SortFunc(order, func(a, b uint64) int { return cmp.Compare(weight(b, thing), weight(a, thing)) })
	few := *v
	if !v.retired && rank(v.self, v.others, thing) < limit {
		few.others = order[:limit-1]
	} else {
		few.noShare = v.noShare || !v.retired // a leaving instance keeps its part until it has left
		few.retired = true
		few.others = order[:limit]
	}

	few.holders = slices.Clone(few.others)
	for _, h := range v.holders {
		if !slices.Contains(v.others, h) {
			few.holders = append(few.holders, h)
		}
	}

	few.choose()
	return &few
}

// rank returns how many of the others have a higher weight than self.
func rank(self uint64, others []uint64, thing uint64) int {
	mine, n := weight(self, thing), 0
	for _, o := range others {
		if weight(o, thing) > mine {
			n++
		}
	}

	return n
}

// String returns a short text for logs, such as "1 of 3 alive".
func (v *View) String() string {
	if !v.Known() {
		return "unknown"
	}

	return "1 of " + strconv.Itoa(v.Alive()) + " alive"
}

// same reports whether two views have the same members in the same states.
func same(a, b *View) bool {
	for _, list := range [][]uint64{a.others, a.holders, a.withoutEvents} {
		slices.Sort(list)
	}

	return a.id == b.id && a.known == b.known && a.retired == b.retired && a.selfWithoutEvents == b.selfWithoutEvents &&
		a.unresponsive == b.unresponsive && a.leaving == b.leaving && sameMembers(a, b)
}

func sameMembers(a, b *View) bool {
	return slices.Equal(a.others, b.others) && slices.Equal(a.holders, b.holders) &&
		slices.Equal(a.withoutEvents, b.withoutEvents) && maps.Equal(a.differs, b.differs) &&
		maps.EqualFunc(a.without, b.without, slices.Equal[[]uint64]) && maps.EqualFunc(a.sealKeys, b.sealKeys, slices.Equal[[]string])
}
