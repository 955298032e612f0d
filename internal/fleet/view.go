package fleet

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/cespare/xxhash/v2"
)

// View is the fleet as one instance sees it at a moment. It does not change and
// is safe for concurrent use. A nil View knows of nobody: its owner is preferred
// for everything and holds limits whole.
//
// Who is preferred, and who holds what is left over of a limit, is decided by
// rendezvous hashing: each instance draws a number for the name of a thing, and
// the highest wins. When an instance comes or goes only its own part moves.
type View struct {
	id string
	// number changes with the members.
	number uint64
	known  bool
	self   uint64
	// out: the owner takes no new work, as it is leaving or not among the
	// holders.
	out bool
	// ids are the living by the numbers that stand for them.
	ids map[uint64]string
	// others take new work; holders are these and those that are leaving.
	others, holders []uint64
	// Expired events do not arrive at deaf, which are some of others, and not at the owner
	// if selfDeaf.
	deaf     []uint64
	selfDeaf bool
	// candidates are those of others that may be preferred, and passed is true if the owner
	// may not be: see choose.
	candidates []uint64
	passed     bool
	// none: the owner holds no part of the limit that the view was reduced by.
	none    bool
	silent  int
	leaving int
	// uneven are the owner's routes that not all others have as it has them.
	uneven map[string]bool
}

// ID is the owner's.
func (v *View) ID() string {
	if v == nil {
		return ""
	}
	return v.id
}

// choose decides who may be preferred: those that take new work and at which expired events
// arrive, or, if there are none of these, all that take new work.
func (v *View) choose() {
	v.candidates, v.passed = v.others, v.out
	if len(v.deaf) == 0 && !v.selfDeaf {
		return
	}
	hear := make([]uint64, 0, len(v.others))
	for _, o := range v.others {
		if !slices.Contains(v.deaf, o) {
			hear = append(hear, o)
		}
	}
	if len(hear) > 0 || !v.out && !v.selfDeaf {
		v.candidates, v.passed = hear, v.out || v.selfDeaf
	}
}

// Number tells views with different members apart, for whoever keeps what it
// has computed from one.
func (v *View) Number() uint64 {
	if v == nil {
		return 0
	}
	return v.number
}

// Known reports whether the fleet's members are known now.
func (v *View) Known() bool { return v != nil && v.known }

// Even reports whether all that may be preferred have that route as the owner
// has it, as far as is known: where one has not, nothing may be left to it.
func (v *View) Even(route string) bool { return v == nil || !v.uneven[route] }

// Living is how many instances take new work, the owner included, as far as was
// known last. It is 1 before anything is known.
func (v *View) Living() int {
	if v == nil {
		return 1
	}
	n := len(v.others)
	if !v.out {
		n++
	}
	return max(1, n)
}

// hashOf is the number that stands for an instance or the name of a thing. All
// instances must agree on it, so it is no hash with a seed of the process.
func hashOf(s string) uint64 { return xxhash.Sum64String(s) }

// draw mixes a member's number with a thing's (the finalizer of splitmix64).
func draw(member, thing uint64) uint64 {
	x := member ^ thing
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

// Prefers reports whether the owner is the one to work on a thing at
// once, such as a notice by its key.
func (v *View) Prefers(name string) bool {
	if v == nil || !v.known {
		return true
	}
	return v.first(hashOf(name))
}

// PrefersWork is Prefers for the looks and sweeps of a route and shard.
func (v *View) PrefersWork(route string, shard int) bool {
	if v == nil || !v.known {
		return true
	}
	return v.first(workOf(route, shard))
}

// RankForWork is how many others come before the owner to look at a route and
// shard: 0 if it is preferred, 1 if it is next when that one does nothing. Those that
// are absent do not count.
func (v *View) RankForWork(route string, shard int, absent *absences) int {
	if v == nil || !v.known {
		return 0
	}
	n := 0
	v.before(workOf(route, shard), func(id uint64) {
		if !absent.has(v.ids[id]) {
			n++
		}
	})
	return n
}

// Before are the ids of those that come before the owner to look at a route and shard.
func (v *View) Before(route string, shard int) (ids []string) {
	if v == nil || !v.known {
		return nil
	}
	v.before(workOf(route, shard), func(id uint64) { ids = append(ids, v.ids[id]) })
	return ids
}

// before visits all that come before the owner, which comes last where it takes no work.
func (v *View) before(thing uint64, visit func(id uint64)) {
	mine := draw(v.self, thing)
	for _, o := range v.candidates {
		if v.passed || draw(o, thing) > mine {
			visit(o)
		}
	}
}

func workOf(route string, shard int) uint64 {
	return hashOf(route) + uint64(shard+1)*0x9e3779b97f4a7c15 // shards are few
}

// Takes reports whether the owner takes new work: it does not where it is leaving,
// nor in a view Among others.
func (v *View) Takes() bool { return v == nil || !v.out }

// Preferred is the id of the instance that is to work on a thing; empty while
// nobody is known.
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
		if draw(o, thing) > draw(best, thing) {
			best = o
		}
	}
	return v.ids[best]
}

// Lives reports whether another instance of that id takes new work, as far as is known.
func (v *View) Lives(id string) bool {
	if v == nil || !v.known {
		return false
	}
	return slices.ContainsFunc(v.others, func(o uint64) bool { return v.ids[o] == id })
}

// first reports whether nobody draws more than the owner does.
func (v *View) first(thing uint64) bool {
	if v.passed {
		return len(v.candidates) == 0
	}
	mine := draw(v.self, thing)
	for _, o := range v.candidates {
		if draw(o, thing) > mine {
			return false
		}
	}
	return true
}

// Share is the owner's part of a limit on how many may be under way at once
// under that name, such as calls to a host. The parts of all instances with the
// same view sum up to the limit. Where there are more instances than the limit
// has units, some get none: 0, unless the limit itself is 0, which stands for
// none at all. Different names have different holders.
func (v *View) Share(name string, limit int) int {
	if v == nil || limit <= 0 || len(v.holders) == 0 {
		return limit
	}
	if v.none {
		return 0
	}
	n := len(v.holders) + 1
	share, over := limit/n, limit%n
	if over > 0 && rank(v.self, v.holders, hashOf(name)) < over {
		share++
	}
	return share
}

// Rate is the owner's part of a rate per second of that name. It is shared by
// as many instances as get one a second each, and by one at least, so that the
// few of a slow rate do not lie at an instance whose turn is minutes away.
func (v *View) Rate(name string, perSecond float64) float64 {
	switch {
	case v == nil || perSecond <= 0:
		return perSecond
	case v.none:
		return 0
	case len(v.others) == 0:
		return perSecond
	case v.out:
		return 0
	}
	n := len(v.others) + 1
	if slow := max(1, math.Floor(perSecond)); slow < float64(n) {
		if rank(v.self, v.others, hashOf(name)) >= int(slow) {
			return 0
		}
		return perSecond / slow
	}
	return perSecond / float64(n)
}

// Among is the view with only those that hold a part of a limit of that name:
// who is preferred for work that the limit governs, and who holds a part of other
// limits on the same work, is chosen among them. Otherwise one could have the rate
// and another the slots, and nobody could work.
func (v *View) Among(name string, limit int) *View {
	if v == nil || limit <= 0 || v.Living() <= limit {
		return v
	}
	thing := hashOf(name)
	order := slices.Clone(v.others)
	slices.SortFunc(order, func(a, b uint64) int { return cmp.Compare(draw(b, thing), draw(a, thing)) })
	few := *v
	if !v.out && rank(v.self, v.others, thing) < limit {
		few.others = order[:limit-1]
	} else {
		few.none = v.none || !v.out // one that is leaving holds its part until it has left
		few.out = true
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

// rank is how many of the others draw more than self.
func rank(self uint64, others []uint64, thing uint64) int {
	mine, n := draw(self, thing), 0
	for _, o := range others {
		if draw(o, thing) > mine {
			n++
		}
	}
	return n
}

// String is for logs: "1 of 3 living".
func (v *View) String() string {
	if !v.Known() {
		return "unknown"
	}
	return "1 of " + strconv.Itoa(v.Living()) + " living"
}

// same reports whether two views hold the same members in the same states.
func same(a, b *View) bool {
	slices.Sort(a.others)
	slices.Sort(a.holders)
	slices.Sort(a.deaf)
	return a.id == b.id && a.known == b.known && a.out == b.out && a.selfDeaf == b.selfDeaf && slices.Equal(a.deaf, b.deaf) && a.silent == b.silent && a.leaving == b.leaving &&
		slices.Equal(a.others, b.others) && slices.Equal(a.holders, b.holders) && maps.Equal(a.uneven, b.uneven)
}
