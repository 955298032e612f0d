package layout

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keys"
	"notifier/internal/wire"
)

// Where notices lie that a reshard has not moved yet. They are claimed, settled and
// changed where they are; nothing new is put into a former shard. So each call on a
// notice looks into the former shards first, as long as they may hold something, and
// then into its own: notices go that way only. The guard has let nobody write into a
// former shard as if it were none since a script of this Store has been let through
// there: what it does not hold then, it never will. See package move.
//
// That all of them hold nothing is noted in each place, and is part of what the guard
// compares. So a Redis that has forgotten it, with the last moves, refuses who relies on
// it, and what lies in a former shard again is found there. In a cluster, where one node
// forgets moves and another knows that they were made, each Store sees for itself that
// they hold nothing, and what is there again is found when that is looked at next.

//go:embed lua/where.lua
var whereSource string

var whereScript = wire.NewScript("where", whereSource, false)

// former are the former shards that may hold something, as far as this Store knows.
type former struct {
	open atomic.Pointer[[]int]
	// forgot counts how often Redis has forgotten that they hold nothing.
	forgot atomic.Int64
}

// reset says that the first n places are former shards, of which nothing is known.
func (f *former) reset(n int) {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	f.open.Store(&list)
}

// learnt takes what has been learnt of the places, after now was known.
func (f *former) learnt(now, next *View) {
	was := now != nil && now.whole
	switch {
	case next.whole && (!was || now.First != next.First):
		f.open.Store(&[]int{})
	case was && !next.whole:
		f.reset(next.First)
		if now.First == next.First {
			f.forgot.Add(1)
		}
	}
}

// Refilled reports whether former shards that were known to be empty may hold something
// after all, because Redis has lost the last moves. open is how many were not empty before.
func (s *Layout) Refilled(open int) bool { return open == 0 && len(s.Formers()) > 0 }

// Forgot counts how often Redis has forgotten that the former shards hold nothing.
func (s *Layout) Forgot() int64 { return s.places.forgot.Load() }

// Formers are the former shards that may hold something; none after all has been moved.
func (s *Layout) Formers() []int { return *s.places.open.Load() }

// IsFormer reports whether a place is a shard no more.
func (s *Layout) IsFormer(place int) bool { return place < s.space.First() }

// Where says in which place each of some notices is kept, or would be.
func (s *Layout) Where(ctx context.Context, ks []string) ([]int, error) {
	at := make([]int, len(ks))
	for {
		now := s.space.Now()
		for i, k := range ks {
			at[i] = now.Shard(k)
		}
		open := s.Formers()
		if len(open) == 0 {
			return at, nil
		}
		lies, err := s.LiesIn(ctx, now, ks, func(home int) bool { return slices.Contains(open, home) })
		if err != nil {
			return nil, err
		}
		for i, home := range lies {
			at[i] = home
		}
		if s.space.First() == now.First() {
			return at, nil
		}
	}
}

// LiesIn says in which of the former shards, of those that only says, some notices lie, by
// their number in ks; the latest of several. What it says counts if the shards are the
// same afterwards.
func (s *Layout) LiesIn(ctx context.Context, now keys.Space, ks []string, only func(home int) bool) (map[int]int, error) {
	by := map[int][]int{}
	for i, k := range ks {
		for _, home := range now.Homes(k) {
			if only(home) {
				by[home] = append(by[home], i)
			}
		}
	}
	lies := map[int]int{}
	// The oldest first: what is on its way out of one may be on it to another, where
	// that was begun before the last reshard.
	for _, home := range slices.Sorted(maps.Keys(by)) {
		for some := range slices.Chunk(by[home], lookedAtOnce) {
			named := make([]string, len(some))
			for j, i := range some {
				named[j] = ks[i]
			}
			here, err := s.whereIn(ctx, now.First(), home, named)
			if err != nil && !errors.Is(err, ErrReplaced) {
				return nil, err
			}
			for j, yes := range here {
				if yes {
					lies[some[j]] = home
				}
			}
		}
	}
	return lies, nil
}

// lookedAtOnce is how many keys one script looks for.
const lookedAtOnce = 200

// whereIn says which keys lie in one of the former shards, which are first in number.
// What is on its way is brought where it goes.
func (s *Layout) whereIn(ctx context.Context, first, home int, ks []string) ([]bool, error) {
	args := make([]any, len(ks))
	for i, k := range ks {
		args[i] = k
	}
	for {
		there, err := s.Knowing(ctx, s.space.Base(home), func(v *View) *redis.Cmd {
			switch {
			case s.space.First() != first:
				return Replaced(ctx)
			case v.First != first:
				return Outdated(ctx)
			}
			names := []string{s.space.Moving(home)}
			for _, p := range v.CoveringAny(ks) {
				names = append(names, s.space.Records(keys.Partition{Prefix: p, Shard: home}))
			}
			return s.Send(ctx, v, whereScript, names, args)
		}).Int64Slice()
		if err != nil {
			return nil, s.w.Fail(whereScript.Op, err)
		}
		if len(there) != len(ks) {
			return nil, s.w.Fail(whereScript.Op, fmt.Errorf("a reply of %d parts to %d keys", len(there), len(ks)))
		}
		here := make([]bool, len(ks))
		for i, n := range there {
			here[i] = n == 1
		}
		if !slices.Contains(there, 2) {
			return here, nil
		}
		if err := s.Finish(ctx, home); err != nil {
			return nil, err
		}
	}
}

// Outdated stands for a call that is not made because what is known of the places
// changes meanwhile: it is as if the guard had refused it.
func Outdated(ctx context.Context) *redis.Cmd {
	cmd := redis.NewCmd(ctx)
	cmd.SetErr(wire.Refusal("LAYOUT is learnt"))
	return cmd
}

// CoveringAny are the registered prefixes that cover any of some keys.
func (v *View) CoveringAny(ks []string) []string {
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

// Place is Where of one notice.
func (s *Layout) Place(ctx context.Context, key string) (int, error) {
	if len(s.Formers()) == 0 {
		return s.space.Shard(key), nil
	}
	at, err := s.Where(ctx, []string{key})
	if err != nil {
		return 0, err
	}
	return at[0], nil
}

// Drained looks which former shards hold anything, and says how many do. Nothing is on
// its way into one that has been found empty: first it is seen to that all know it as a
// former one, then that nothing is on its way at all. Once all have been found empty, it
// looks at those that only says, if that is not nil: what is written there later comes
// from whoever knows nothing of it, and one instance that sees it is enough.
func (s *Layout) Drained(ctx context.Context, only func(place int) bool) (left int, err error) {
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
	open := []int{}
	for _, place := range places {
		some, err := s.AnyOf(ctx, append(s.records(place), s.space.Tombstones(place)))
		if err != nil {
			return 0, err
		}
		if some {
			open = append(open, place)
		}
	}
	v := s.view.Load()
	switch {
	case v == nil || v.First != n || s.space.First() != n: // there are others by now
	case len(open) > 0 && len(*before) == 0:
		s.places.open.CompareAndSwap(before, &open) // who knows nothing of the shards has written there
	case len(open) == 0 && len(*before) > 0:
		if !s.w.Cluster && !v.whole {
			return 0, s.noteWhole(ctx, v)
		}
		// For producers' own scripts, which look at one shard only.
		for place := n; place < s.space.Places(); place++ {
			if err := s.c.HSet(ctx, s.space.Layout(place), "whole", s.space.Places()).Err(); err != nil {
				return 0, s.w.Fail("whole", err)
			}
		}
		s.places.open.CompareAndSwap(before, &open)
	}
	return len(open), nil
}

//go:embed lua/whole.lua
var wholeSource string

var wholeScript = wire.NewScript("whole", wholeSource, false)

// noteWhole notes in each place that the former shards hold nothing, which this Store has
// found while it knew v, and looks once more in the same step; then it learns that, as all
// others do.
func (s *Layout) noteWhole(ctx context.Context, v *View) error {
	places := s.space.Places()
	for place := range places {
		if err := s.known(ctx, place); err != nil {
			return err
		}
	}
	var names, layouts []string
	for place := range places {
		if place < v.First {
			names = append(names, s.space.Moving(place), s.space.Tombstones(place))
			for _, p := range v.Prefixes {
				names = append(names, s.space.Records(keys.Partition{Prefix: p, Shard: place}))
			}
		}
		layouts = append(layouts, s.space.Layout(place))
	}
	args := []any{len(names), places}
	names = append(names, layouts...)
	err := s.Knowing(ctx, string(keys.ShardOf(names[0])), func(now *View) *redis.Cmd {
		if now.First != v.First || !slices.Equal(now.Prefixes, v.Prefixes) {
			return Replaced(ctx)
		}
		return s.Send(ctx, now, wholeScript, names, args)
	}).Err()
	if err != nil {
		return s.w.Fail(wholeScript.Op, err)
	}
	return s.known(ctx, 0)
}

// Records is how many notices a place holds.
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

// records are the names of a place's hashes of records.
func (s *Layout) records(place int) []string {
	var names []string
	for _, p := range s.Prefixes() {
		names = append(names, s.space.Records(keys.Partition{Prefix: p, Shard: place}))
	}
	return names
}

// AnyOf reports whether any of some keys of one slot exists.
func (s *Layout) AnyOf(ctx context.Context, ks []string) (bool, error) {
	n, err := s.c.Exists(ctx, ks...).Result()
	if err != nil {
		return false, s.w.Fail("kept", err)
	}
	return n > 0, nil
}

// ErrReplaced says that a call was for a shard that others have replaced since.
var ErrReplaced = fmt.Errorf("%w: the shards have been replaced by others", wire.ErrUnavailable)

// Replaced stands for a call that is not made for that reason.
func Replaced(ctx context.Context) *redis.Cmd {
	cmd := redis.NewCmd(ctx)
	cmd.SetErr(ErrReplaced)
	return cmd
}

// IsOld reports whether a call is for a former shard, or was thought to be for another
// before Redis forgot, as is known by now, what had been moved.
func (s *Layout) IsOld(v *View, place int, since int64) bool {
	return place < v.First || s.places.forgot.Load() != since
}
