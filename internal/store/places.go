package store

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"

	"notifier/internal/keys"
	"notifier/internal/wire"
)

// The location of notices that a reshard has not moved yet. They are claimed, settled and changed
// in place, and no new notice is scheduled in an old shard. So each call on a notice checks the old
// shards first, as long as they may hold notices, and then the current shard: notices only move in
// that direction. After a script of this Layout has been accepted by an old shard, the guard refuses
// every writer that takes the old shard for a current one. So a notice that the old shard does not
// hold then is not added later. See package move.
//
// Outside a cluster, each place records when all old shards are empty, as a part of the state that
// the guard compares. If Redis loses that record together with the last moves, the guard refuses
// callers that rely on it, and the notices are found in the old shards again. In a cluster one node
// can lose moves that another node knows. Therefore each Layout there checks itself that the old
// shards are empty, and finds restored notices at its next check.

// former is the state of old shards, as far as this Layout knows.
type former struct {
	open atomic.Pointer[[]int]
	// forgot counts how often Redis has lost the record that the old shards are empty.
	forgot atomic.Int64
}

// reset marks the first n places as old shards with unknown content.
func (f *former) reset(n int) {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}

	f.open.Store(&list)
}

// learnt updates the state after the view has changed from now to next.
func (f *former) learnt(now, next *LayoutView) {
	was := now != nil && now.whole
	switch {
	case next.whole && (!was || now.first != next.first):
		f.open.Store(&[]int{})
	case was && !next.whole:
		f.reset(next.first)
		if now.first == next.first {
			f.forgot.Add(1)
		}
	}
}

// lostMoves returns how often Redis has lost the record that the old shards are empty.
func (s *Layout) lostMoves() int64 { return s.places.forgot.Load() }

// OldShards returns the old shards that may hold notices.
func (s *Layout) OldShards() []int { return *s.places.open.Load() }

// isOldShard reports whether a place is an old shard.
func (s *Layout) isOldShard(place int) bool { return place < s.space.First() }

// findInOld searches old shards, which reshards have replaced, for the notices with the keys ks. It searches a shard if
// only returns true for the shard's number. The result maps the index of a key in ks to the shard that stores its
// notice. now is the caller's list of shards. If a reshard begins meanwhile, findInOld may miss notices, so the caller
// must search again if the current number of old shards is not now.First().
func (s *Layout) findInOld(ctx context.Context, now keys.Space, ks []string, only func(place int) bool) (map[int]int, error) {
	by := map[int][]int{}
	for i, k := range ks {
		for _, place := range now.Homes(k) {
			if only(place) {
				by[place] = append(by[place], i)
			}
		}
	}

	found := map[int]int{}
	// Oldest first: a batch from an old shard may go to another old shard, if it was started before
	// the last reshard. If several shards have a key, the newest one is returned.
	for _, place := range slices.Sorted(maps.Keys(by)) {
		here, err := s.findInOne(ctx, now.First(), place, ks, by[place])
		if err != nil {
			return nil, err
		}

		for _, i := range here {
			found[i] = place
		}
	}

	return found, nil
}

// findInOne returns the indexes in ks, out of which, of the keys that an old shard holds. first is
// the number of old shards.
func (s *Layout) findInOne(ctx context.Context, first, place int, ks []string, which []int) (found []int, err error) {
	for some := range slices.Chunk(which, checkedAtOnce) {
		named := make([]string, len(some))
		for j, i := range some {
			named[j] = ks[i]
		}

		here, err := s.whereIn(ctx, first, place, named)
		if err != nil && !errors.Is(err, ErrReplaced) {
			return nil, err
		}

		for j, yes := range here {
			if yes {
				found = append(found, some[j])
			}
		}
	}
	return found, nil
}

// checkedAtOnce is the maximum number of keys in one script call.
const checkedAtOnce = 200

// whereIn reports which keys an old shard holds; first is the number of old shards. It completes
// started batches.
func (s *Layout) whereIn(ctx context.Context, first, home int, ks []string) ([]bool, error) {
	args := wire.Texts(ks)
	for {
		there, err := s.Call(ctx, locateScript, s.space.Base(home), func(v *LayoutView) ([]string, []any, error) {
			switch {
			case s.space.First() != first:
				return nil, nil, ErrReplaced
			case v.first != first:
				return nil, nil, ErrOutdated
			}

			names := []string{s.space.Moving(home)}
			for _, p := range v.CoveringAny(ks) {
				names = append(names, s.space.Records(keys.Partition{Prefix: p, Shard: home}))
			}

			return names, args, nil
		}).Int64Slice()
		if err != nil {
			return nil, s.w.Fail(locateScript.Op, err)
		}
		if len(there) != len(ks) {
			return nil, s.w.Fail(locateScript.Op, fmt.Errorf("a reply of %d parts to %d keys", len(there), len(ks)))
		}

		here := make([]bool, len(ks))
		for i, n := range there {
			here[i] = n > 0
		}

		if !slices.Contains(there, -1) {
			return here, nil
		}
		if err := s.Finish(ctx, home); err != nil {
			return nil, err
		}
	}
}

// ErrOutdated is returned by a [Prepare] whose call needs other places than the known ones, as if
// the guard had refused the script.
var ErrOutdated = wire.Refusal("LAYOUT is learnt")

// CoveringAny returns the registered prefixes that cover any of the keys.
func (v *LayoutView) CoveringAny(ks []string) []string {
	var list []string
	for _, k := range ks {
		for _, p := range v.Covering(k) {
			if !slices.Contains(list, p) {
				list = append(list, p)
			}
		}
	}

	return list
}

// Drained returns how many of the shards that reshards have replaced still contain notices. If all were empty in an
// earlier call, it checks only the shards for which only returns true, or all if only is nil.
func (s *Layout) Drained(ctx context.Context, only func(place int) bool) (left int, err error) {
	// An empty shard stays empty: the first step below makes every writer know that the shard is old, and the second
	// completes the batches of movers. Then only a writer with an outdated layout could still write there, and one
	// instance is enough to find such a notice.
	before := s.places.open.Load()
	n := s.space.First()
	var places []int
	for place := range n {
		if only == nil || len(*before) > 0 || only(place) {
			places = append(places, place)
		}
	}

	for _, step := range []func(place int) error{
		func(place int) error { return s.known(ctx, place) },
		func(place int) error { return s.Finish(ctx, place) },
	} {
		for _, place := range places {
			if err := step(place); err != nil {
				return 0, err
			}
		}
	}

	open, err := s.occupied(ctx, places)
	if err != nil {
		return 0, err
	}
	if err := s.looked(ctx, n, before, &open); err != nil {
		return 0, err
	}

	return len(open), nil
}

// looked records which of the first n places hold notices; before is the previous list.
func (s *Layout) looked(ctx context.Context, n int, before, open *[]int) error {
	v := s.view.Load()
	if v == nil || v.first != n || s.space.First() != n { // other shards were announced since
		return nil
	}

	switch {
	case len(*open) > 0 && len(*before) == 0: // an instance that does not know the shards has written there
		s.places.open.CompareAndSwap(before, open)
	case len(*open) == 0 && len(*before) > 0:
		if !s.w.Cluster && !v.whole {
			return s.noteWhole(ctx, v)
		}
		if err := s.writeWhole(ctx, n); err != nil {
			return err
		}

		s.places.open.CompareAndSwap(before, open)
	}

	return nil
}

// occupied returns which of some places hold notices, tombstones or definitions of recurring notices.
func (s *Layout) occupied(ctx context.Context, places []int) (some []int, err error) {
	some = []int{}
	for _, place := range places {
		names := append(s.records(place), s.space.Tombstones(place))
		for _, p := range s.Prefixes() {
			names = append(names, s.space.Recurring(keys.Partition{Prefix: p, Shard: place}))
		}

		holds, err := s.AnyOf(ctx, names)
		if err != nil {
			return nil, err
		}

		if holds {
			some = append(some, place)
		}
	}

	return some, nil
}

// writeWhole records that the old shards are empty, for producers' own scripts, which check one shard
// only. first is the first current shard.
func (s *Layout) writeWhole(ctx context.Context, first int) error {
	for place := first; place < s.space.Places(); place++ {
		if err := s.c.HSet(ctx, s.space.Layout(place), "whole", s.space.Places()).Err(); err != nil {
			return s.w.Fail("whole", err)
		}
	}
	return nil
}

//go:embed lua/whole.lua
var wholeSource string

var wholeScript = wire.NewScript("whole", wholeSource, false)

// noteWhole records in each place that the old shards are empty, as found under view v. The script
// checks it again in the same step. Then this Layout reads the record, as all instances do.
func (s *Layout) noteWhole(ctx context.Context, v *LayoutView) error {
	places := s.space.Places()
	for place := range places {
		if err := s.known(ctx, place); err != nil {
			return err
		}
	}

	var names, layouts []string
	for place := range places {
		if place < v.first {
			names = append(names, s.space.Moving(place), s.space.Tombstones(place))
			for _, p := range v.Prefixes {
				at := keys.Partition{Prefix: p, Shard: place}
				names = append(names, s.space.Records(at), s.space.Recurring(at))
			}
		}
		layouts = append(layouts, s.space.Layout(place))
	}

	args := []any{len(names), places}
	names = append(names, layouts...)
	err := s.Call(ctx, wholeScript, string(keys.ShardOf(names[0])), func(now *LayoutView) ([]string, []any, error) {
		if now.first != v.first || !slices.Equal(now.Prefixes, v.Prefixes) {
			return nil, nil, ErrReplaced
		}
		return names, args, nil
	}).Err()
	if err != nil {
		return s.w.Fail(wholeScript.Op, err)
	}

	return s.known(ctx, 0)
}

// Records returns the number of notices in a place.
func (s *Layout) Records(ctx context.Context, place int) (n int64, err error) {
	for _, name := range s.records(place) {
		some, err := s.c.HLen(ctx, name).Result()
		if err != nil {
			return 0, s.w.Fail("kept", err)
		}

		n += some
	}
	return n, nil
}

// records returns the names of a place's hashes of records.
func (s *Layout) records(place int) []string {
	var names []string
	for _, p := range s.Prefixes() {
		names = append(names, s.space.Records(keys.Partition{Prefix: p, Shard: place}))
	}

	return names
}

// AnyOf reports whether any of the keys, which have the same slot, exists.
func (s *Layout) AnyOf(ctx context.Context, ks []string) (bool, error) {
	n, err := s.c.Exists(ctx, ks...).Result()
	if err != nil {
		return false, s.w.Fail("kept", err)
	}

	return n > 0, nil
}

// ErrReplaced is returned by a call on a shard that has been replaced.
var ErrReplaced = fmt.Errorf("%w: the shards have been replaced by others", wire.ErrUnavailable)
