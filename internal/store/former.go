package store

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
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
func (f *former) learnt(now, next *view) {
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

// refilled reports whether former shards that were known to hold nothing, open before in
// number, may hold something after all: Redis has forgotten the last moves.
func (s *Store) refilled(open int) bool { return open == 0 && len(s.Formers()) > 0 }

// Formers are the former shards that may hold something; none after all has been moved.
func (s *Store) Formers() []int { return *s.places.open.Load() }

// IsFormer reports whether a place is a shard no more.
func (s *Store) IsFormer(place int) bool { return place < s.space.First() }

// Where says in which place each of some notices is kept, or would be.
func (s *Store) Where(ctx context.Context, ks []string) ([]int, error) {
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
		lies, err := s.liesIn(ctx, now, ks, func(home int) bool { return slices.Contains(open, home) })
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

// liesIn says in which of the former shards, of those that only says, some notices lie, by
// their number in ks; the latest of several. What it says counts if the shards are the
// same afterwards.
func (s *Store) liesIn(ctx context.Context, now keys.Space, ks []string, only func(home int) bool) (map[int]int, error) {
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
		for some := range slices.Chunk(by[home], amendAtOnce) {
			named := make([]string, len(some))
			for j, i := range some {
				named[j] = ks[i]
			}
			here, err := s.whereIn(ctx, now.First(), home, named)
			if err != nil && !errors.Is(err, errReplaced) {
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

// whereIn says which keys lie in one of the former shards, which are first in number.
// What is on its way is brought where it goes.
func (s *Store) whereIn(ctx context.Context, first, home int, ks []string) ([]bool, error) {
	args := make([]any, len(ks))
	for i, k := range ks {
		args[i] = k
	}
	for {
		there, err := s.knowing(ctx, s.space.Base(home), func(v *view) *redis.Cmd {
			switch {
			case s.space.First() != first:
				return replaced(ctx)
			case v.first != first:
				return outdated(ctx)
			}
			names := []string{s.space.Moving(home)}
			for _, p := range v.coveringAny(ks) {
				names = append(names, s.space.Records(keys.Partition{Prefix: p, Shard: home}))
			}
			return s.send(ctx, v, whereScript, names, args)
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

// outdated stands for a call that is not made because what is known of the places
// changes meanwhile: it is as if the guard had refused it.
func outdated(ctx context.Context) *redis.Cmd {
	cmd := redis.NewCmd(ctx)
	cmd.SetErr(wire.Refusal("LAYOUT is learnt"))
	return cmd
}

// coveringAny are the registered prefixes that cover any of some keys.
func (v *view) coveringAny(ks []string) []string {
	var list []string
	for _, k := range ks {
		for _, p := range v.covering(k) {
			if !slices.Contains(list, p) {
				list = append(list, p)
			}
		}
	}
	return list
}

// where is Where of one notice.
func (s *Store) where(ctx context.Context, key string) (int, error) {
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
func (s *Store) Drained(ctx context.Context, only func(place int) bool) (left int, err error) {
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
		some, err := s.anyOf(ctx, append(s.records(place), s.space.Tombstones(place)))
		if err != nil {
			return 0, err
		}
		if some {
			open = append(open, place)
		}
	}
	v := s.view.Load()
	switch {
	case v == nil || v.first != n || s.space.First() != n: // there are others by now
	case len(open) > 0 && len(*before) == 0:
		s.places.open.CompareAndSwap(before, &open) // who knows nothing of the shards has written there
	case len(open) == 0 && len(*before) > 0:
		if !s.o.Cluster && !v.whole {
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
func (s *Store) noteWhole(ctx context.Context, v *view) error {
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
			for _, p := range v.prefixes {
				names = append(names, s.space.Records(keys.Partition{Prefix: p, Shard: place}))
			}
		}
		layouts = append(layouts, s.space.Layout(place))
	}
	args := []any{len(names), places}
	names = append(names, layouts...)
	err := s.knowing(ctx, wire.Base(names[0]), func(now *view) *redis.Cmd {
		if now.first != v.first || !slices.Equal(now.prefixes, v.prefixes) {
			return replaced(ctx)
		}
		return s.send(ctx, now, wholeScript, names, args)
	}).Err()
	if err != nil {
		return s.w.Fail(wholeScript.Op, err)
	}
	return s.known(ctx, 0)
}

//go:embed lua/moveout.lua
var moveOutSource string

//go:embed lua/movein.lua
var moveInSource string

//go:embed lua/moveend.lua
var moveEndSource string

var (
	moveOutScript = wire.NewScript("moveout", moveOutSource, false)
	moveInScript  = wire.NewScript("movein", moveInSource, false).Confirmed()
	moveEndScript = wire.NewScript("moveend", moveEndSource, false)
)

// Bounds of a batch that leaves a former shard, so that none of its calls holds Redis
// for long; docs/operations.md has the figures.
const (
	MaxMoving      = 64
	maxMovingBytes = 1 << 20
)

// Moving is a batch of notices that is on its way from a former shard to another.
type Moving struct {
	Number int64
	From   keys.Partition
	To     int
	what   []string // keys, and what movein.lua takes of each
	far    string   // by which the shard of another Redis knows where it comes from: see SendOff
}

// Len is how many notices are on their way.
func (l *Moving) Len() int { return len(l.what) / 2 }

// ErrMoving says that another batch is on its way out of a former shard.
var ErrMoving = errors.New("another batch is on its way")

// Staying counts notices that stay where they are for now.
type Staying struct {
	Claimed  int // and those whose claim has lapsed
	Reported int // they await a report
	Soon     int // they are due soon, which only matters to another Redis
	Both     int // another notice of their key waits where they would go
}

// All is how many there are.
func (h Staying) All() int { return h.Claimed + h.Reported + h.Soon + h.Both }

// MoveOut takes notices, MaxMoving at most, out of a former shard, on their way to
// another: what is claimed, or awaits a report, stays, and is counted as held.
func (s *Store) MoveOut(ctx context.Context, from keys.Partition, to int, ks []string) (l Moving, held Staying, err error) {
	last := int64(0)
	if s.o.Cluster {
		if last, err = s.lastIn(ctx, to, s.space.Tag(from.Shard)); err != nil {
			return l, held, err
		}
	}
	return s.moveOut(ctx, Moving{From: from, To: to}, []any{s.space.Tag(to), from.Prefix, maxMovingBytes, last, "", ""}, ks, func(v *view) bool {
		return from.Shard < v.first && to >= v.first // else to is no shard any more, or neither is known yet
	})
}

// lastIn is the last batch from somewhere that a shard knows of; 0 = none yet.
func (s *Store) lastIn(ctx context.Context, to int, from string) (int64, error) {
	text, err := s.c.HGet(ctx, s.space.Layout(to), "from "+from).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return 0, s.w.Fail("moveout", err)
	}
	text, _, _ = strings.Cut(text, " ")
	last, _ := strconv.ParseInt(text, 10, 64)
	return last, nil
}

func (s *Store) moveOut(ctx context.Context, l Moving, args []any, ks []string, sure func(*view) bool) (Moving, Staying, error) {
	args = append([]any{s.space.ClaimPrefix(l.From.Shard)}, args...)
	for _, k := range ks {
		args = append(args, k)
	}
	names := append(s.keysOf(l.From), s.space.Moving(l.From.Shard))
	v, err := s.w.List(moveOutScript.Op, s.knowing(ctx, s.space.Base(l.From.Shard), func(v *view) *redis.Cmd {
		if !sure(v) {
			return outdated(ctx)
		}
		return s.send(ctx, v, moveOutScript, names, args)
	}))
	var held Staying
	if err != nil {
		return l, held, err
	}
	if len(v) < 4 {
		return l, held, fmt.Errorf("moveout: %w", ErrMoving)
	}
	if len(v)%2 != 0 { // a notice has two parts
		return l, held, fmt.Errorf("moveout: %d answers", len(v))
	}
	number := func(i int) int {
		n, _ := v[i].(int64)
		return int(n)
	}
	l.Number, held = int64(number(0)), Staying{Claimed: number(1), Reported: number(2), Soon: number(3)}
	for _, x := range v[4:] {
		text, _ := x.(string)
		l.what = append(l.what, text)
	}
	return l, held, nil
}

// MoveIn puts a batch where it goes, once, and says which notices are to stay.
func (s *Store) MoveIn(ctx context.Context, l Moving) (stay []string, err error) {
	p := keys.Partition{Prefix: l.From.Prefix, Shard: l.To}
	names := s.keysOf(p)
	if !s.o.Cluster {
		names = append(names, s.space.Moving(l.From.Shard))
	}
	args := []any{s.space.Tag(l.From.Shard), l.Number, s.space.Wake(), wakeInfo(p), ""}
	for i := range l.what {
		args = append(args, &l.what[i])
	}
	stay, err = s.w.Do(ctx, moveInScript, names, args).StringSlice()
	if err != nil {
		return nil, s.w.Fail(moveInScript.Op, err)
	}
	return stay, nil
}

// MoveEnd forgets a batch that has arrived.
func (s *Store) MoveEnd(ctx context.Context, l Moving, stay []string) error {
	args := []any{l.Number}
	for _, k := range stay {
		args = append(args, k)
	}
	_, err := s.w.Run(ctx, moveEndScript, append(s.keysOf(l.From), s.space.Moving(l.From.Shard)), args)
	return err
}

// Outstanding reads the batch that is on its way out of a former shard; nil = none.
func (s *Store) Outstanding(ctx context.Context, place int) (*Moving, error) {
	l, tag, err := s.outstanding(ctx, place)
	if err != nil || l == nil {
		return nil, err
	}
	if l.To = s.space.Place(tag); l.To < 0 { // a shard that this Store has not learnt of yet
		return nil, errors.Join(s.learn(ctx, s.space.Base(place), s.view.Load()), s.w.Fail("moving", wire.ErrUnavailable))
	}
	return l, nil
}

// outstanding reads it without the place that a tag names.
func (s *Store) outstanding(ctx context.Context, place int) (l *Moving, tag string, err error) {
	all, err := s.c.HGetAll(ctx, s.space.Moving(place)).Result()
	if err != nil {
		return nil, "", s.w.Fail("moving", err)
	}
	head, some := all[""]
	if !some {
		return nil, "", nil
	}
	number, rest, _ := strings.Cut(head, " ")
	tag, prefix, _ := strings.Cut(rest, " ")
	l = &Moving{From: keys.Partition{Prefix: prefix, Shard: place}}
	if l.Number, err = strconv.ParseInt(number, 10, 64); err != nil || prefix == "" {
		return nil, "", fmt.Errorf("%w: %s begins with %q, which no version of this program writes", ErrLayout, s.space.Moving(place), head)
	}
	for k, what := range all {
		if k != "" {
			l.what = append(l.what, k, what)
		}
	}
	return l, tag, nil
}

// Finish brings what is on its way out of a former shard where it goes, whoever began.
func (s *Store) Finish(ctx context.Context, place int) error {
	l, err := s.Outstanding(ctx, place)
	if err != nil || l == nil {
		return err
	}
	stay, err := s.MoveIn(ctx, *l)
	if err != nil {
		return err
	}
	return s.MoveEnd(ctx, *l, stay)
}

// Records is how many notices a place holds.
func (s *Store) Records(ctx context.Context, place int) (n int64, err error) {
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
func (s *Store) records(place int) []string {
	var names []string
	for _, p := range s.Prefixes() {
		names = append(names, s.space.Records(keys.Partition{Prefix: p, Shard: place}))
	}
	return names
}
