package keys

import (
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
)

// A place is a slot in which notices of a namespace may be stored. New notices are put into the
// shards. After a reshard, the old shards are places before the current ones, oldest first. The
// number of a place stays the same, so that running calls and messages between instances stay valid.

// layout is where notices lie.
type layout struct {
	shards   int      // how many they are
	tags     []string // theirs; none = each one's number
	former   []string // tags of the places before them
	replaced []int    // how many of those came and went together, in their order
}

// live is a layout that changes while it is used.
type live struct{ atomic.Pointer[layout] }

// Live is the same Space, whose copies all change when one of them grows.
func (s Space) Live() Space {
	s.live = &live{}
	return s
}

func (s *Space) at() layout {
	if s.live != nil {
		if l := s.live.Load(); l != nil {
			return *l
		}
	}
	return layout{max(s.Shards, 1), s.Tags, s.Former, s.Replaced}
}

// Now returns a snapshot of the Space.
func (s Space) Now() Space {
	l := s.at()
	return Space{Namespace: s.Namespace, Shards: l.shards, Tags: l.tags, Former: l.former, Replaced: l.replaced}
}

// Grow makes s, and all copies of it, what next is, if next has all of its places and
// others that have replaced them, and s is live.
func (s Space) Grow(next Space) bool {
	if s.live == nil || !s.Grows(next) {
		return false
	}

	l := next.at()
	s.live.Store(&l)
	return true
}

// Set makes a live s, and all copies of it, what next is, whatever places s had.
func (s Space) Set(next Space) {
	l := next.at()
	s.live.Store(&l)
}

// Grows reports whether next has all places of s, and others that have replaced them.
func (s Space) Grows(next Space) bool {
	l, n := s.at(), next.at()
	return s.Namespace == next.Namespace && len(n.former) >= len(l.former)+l.shards && slices.Equal(n.former[:len(l.former)+l.shards], l.all())
}

// Same reports whether both have the same places and shards.
func (s Space) Same(other Space) bool {
	a, b := s.at(), other.at()
	return s.Namespace == other.Namespace && a.shards == b.shards && slices.Equal(a.tags, b.tags) && slices.Equal(a.former, b.former)
}

// all are the tags of all places.
func (l *layout) all() []string {
	list := slices.Clone(l.former)
	for i := range l.shards {
		list = append(list, l.tag(len(l.former)+i))
	}

	return list
}

func (l *layout) tag(place int) string {
	if place < len(l.former) {
		return l.former[place]
	}
	if place -= len(l.former); place < len(l.tags) {
		return l.tags[place]
	}

	return strconv.Itoa(place)
}

// Places is how many there are in all.
func (s Space) Places() int {
	l := s.at()
	return len(l.former) + l.shards
}

// First is the first place that is a shard: those before it are former ones.
func (s Space) First() int {
	l := s.at()
	return len(l.former)
}

// Newest returns all places: the current shards, then the former ones, the latest first.
func (s Space) Newest() []int {
	l := s.at()
	list := make([]int, 0, len(l.former)+l.shards)
	for i := range l.shards {
		list = append(list, len(l.former)+i)
	}

	return append(list, s.Older()...)
}

// Older returns the former places, the latest first.
func (s Space) Older() (list []int) {
	l := s.at()
	for place := len(l.former) - 1; place >= 0; place-- {
		list = append(list, place)
	}

	return list
}

// Place finds a place by its tag; -1 = there is none.
func (s Space) Place(tag string) int {
	l := s.at()
	return slices.Index(l.all(), tag)
}

// Homes are the former places in which a notice would have lain, the latest first.
func (s Space) Homes(key string) []int {
	l := s.at()
	if len(l.former) == 0 {
		return nil
	}

	var list []int
	end := len(l.former)
	for i := len(l.replaced) - 1; i >= 0; i-- {
		n := l.replaced[i]
		if end -= n; end < 0 {
			break
		}

		list = append(list, end+spread(key, n))
	}

	return list
}

// Replace is the Space in which n shards have taken the place of those of s. No tag
// comes twice. In a cluster the new ones lie at even distances over the slots.
func (s Space) Replace(n int, cluster bool) Space {
	l := s.at()
	next := Space{Namespace: s.Namespace, Shards: n, Former: l.all(), Replaced: append(slices.Clone(l.replaced), l.shards)}
	used := func(tag string) bool { return slices.Contains(next.Former, tag) || slices.Contains(next.Tags, tag) }
	number := 0
	for i := range n {
		tag := ""
		if cluster {
			tag = tagIn((2*i+1)*Slots/(2*n), used)
		} else {
			for tag = strconv.Itoa(number); used(tag); tag = strconv.Itoa(number) {
				number++
			}
		}

		next.Tags = append(next.Tags, tag)
	}

	return next
}

// tagIn returns the smallest unused number that is a hash tag of a slot.
func tagIn(slot int, used func(string) bool) string {
	tag := TagIn(slot)
	for n := 0; used(tag) || Slot(tag) != slot; n++ {
		tag = strconv.Itoa(n)
	}

	return tag
}

// JoinCounts and ParseCounts write and read Replaced.
func JoinCounts(list []int) string {
	words := make([]string, len(list))
	for i, n := range list {
		words[i] = strconv.Itoa(n)
	}

	return strings.Join(words, ",")
}

// ParseCounts is the inverse of JoinCounts; ok is false for invalid text.
func ParseCounts(text string) (list []int, ok bool) {
	if text == "" {
		return nil, true
	}

	for word := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(word)
		if err != nil || n < 1 {
			return nil, false
		}

		list = append(list, n)
	}

	return list, true
}
