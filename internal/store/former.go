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
)

// Where notices lie that a reshard has not moved yet. They are claimed, settled and
// changed where they are; nothing new is put into a former shard. So each call on a
// notice looks into the former shards first, as long as they may hold something, and
// then into its own: notices go that way only. The guard has let nobody write into a
// former shard as if it were none since a script of this Store has been let through
// there: what it does not hold then, it never will. See package move.

//go:embed lua/where.lua
var whereSource string

var whereScript = newScript("where", whereSource, false)

// former are the former shards that may hold something, as far as this Store knows.
type former struct{ open atomic.Pointer[[]int] }

// reset says that the first n places are former shards, of which nothing is known.
func (f *former) reset(n int) {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	f.open.Store(&list)
}

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
		by := map[int][]int{}
		for i, k := range ks {
			for _, home := range now.Homes(k) {
				if slices.Contains(open, home) {
					by[home] = append(by[home], i)
				}
			}
		}
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
						at[some[j]] = home
					}
				}
			}
		}
		if s.space.First() == now.First() {
			return at, nil
		}
	}
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
			return nil, s.fail(whereScript.op, err)
		}
		if len(there) != len(ks) {
			return nil, s.fail(whereScript.op, fmt.Errorf("a reply of %d parts to %d keys", len(there), len(ks)))
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
	cmd.SetErr(refusal("LAYOUT is learnt"))
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
		some, err := s.Holds(ctx, place, s.Prefixes())
		if err != nil {
			return 0, err
		}
		if some {
			open = append(open, place)
		}
	}
	if v := s.view.Load(); v == nil || v.first != n || s.space.First() != n {
		return len(open), nil // there are others by now
	}
	if len(open) == 0 && len(*before) > 0 {
		// For producers' own scripts, which look at one shard only.
		for place := n; place < s.space.Places(); place++ {
			if err := s.c.HSet(ctx, s.space.Layout(place), "whole", s.space.Places()).Err(); err != nil {
				return 0, s.fail("whole", err)
			}
		}
	}
	s.places.open.CompareAndSwap(before, &open)
	return len(open), nil
}

//go:embed lua/moveout.lua
var moveOutSource string

//go:embed lua/movein.lua
var moveInSource string

//go:embed lua/moveend.lua
var moveEndSource string

var (
	moveOutScript = newScript("moveout", moveOutSource, false)
	moveInScript  = newScript("movein", moveInSource, false)
	moveEndScript = newScript("moveend", moveEndSource, false)
)

// Bounds of a batch that leaves a former shard.
const (
	MaxMoving      = 200
	maxMovingBytes = 1 << 20
)

// Moving is a batch of notices that is on its way from a former shard to another.
type Moving struct {
	Number int64
	From   keys.Partition
	To     int
	what   []string // keys, and what movein.lua takes of each
}

// Len is how many notices are on their way.
func (l *Moving) Len() int { return len(l.what) / 2 }

// ErrMoving says that another batch is on its way out of a former shard.
var ErrMoving = errors.New("another batch is on its way")

// MoveOut takes notices, MaxMoving at most, out of a former shard, on their way to
// another: what is claimed, or awaits a report, stays, and is counted as held.
func (s *Store) MoveOut(ctx context.Context, from keys.Partition, to int, ks []string) (l Moving, held int, err error) {
	names := append(s.keysOf(from), s.space.Moving(from.Shard))
	last := int64(0)
	if s.o.Cluster {
		text, err := s.c.HGet(ctx, s.space.Layout(to), "from "+s.space.Tag(from.Shard)).Result()
		if err != nil && !errors.Is(err, redis.Nil) {
			return l, 0, s.fail("moveout", err)
		}
		text, _, _ = strings.Cut(text, " ")
		last, _ = strconv.ParseInt(text, 10, 64) // 0 = none yet
	}
	args := []any{s.space.ClaimPrefix(from.Shard), s.space.Tag(to), from.Prefix, maxMovingBytes, last}
	for _, k := range ks {
		args = append(args, k)
	}
	cmd := s.knowing(ctx, s.space.Base(from.Shard), func(v *view) *redis.Cmd {
		if from.Shard >= v.first || to < v.first {
			return outdated(ctx) // to is no shard any more, or neither is known yet
		}
		return s.send(ctx, v, moveOutScript, names, args)
	})
	v, err := s.list(moveOutScript.op, cmd)
	if err != nil {
		return l, 0, err
	}
	if len(v) < 2 {
		return l, 0, fmt.Errorf("moveout: %w", ErrMoving)
	}
	l = Moving{From: from, To: to}
	l.Number, _ = v[0].(int64)
	n, _ := v[1].(int64)
	for _, x := range v[2:] {
		text, _ := x.(string)
		l.what = append(l.what, text)
	}
	return l, int(n), nil
}

// MoveIn puts a batch where it goes, once, and says which notices are to stay.
func (s *Store) MoveIn(ctx context.Context, l Moving) (stay []string, err error) {
	p := keys.Partition{Prefix: l.From.Prefix, Shard: l.To}
	args := []any{s.space.Tag(l.From.Shard), l.Number, s.space.Wake(), wakeInfo(p)}
	for i := range l.what {
		args = append(args, &l.what[i])
	}
	stay, err = s.answer(ctx, moveInScript, s.keysOf(p), args).StringSlice()
	if err != nil {
		return nil, s.fail(moveInScript.op, err)
	}
	return stay, nil
}

// MoveEnd forgets a batch that has arrived.
func (s *Store) MoveEnd(ctx context.Context, l Moving, stay []string) error {
	args := []any{l.Number}
	for _, k := range stay {
		args = append(args, k)
	}
	_, err := s.run(ctx, moveEndScript, append(s.keysOf(l.From), s.space.Moving(l.From.Shard)), args)
	return err
}

// Outstanding reads the batch that is on its way out of a former shard; nil = none.
func (s *Store) Outstanding(ctx context.Context, place int) (*Moving, error) {
	all, err := s.c.HGetAll(ctx, s.space.Moving(place)).Result()
	if err != nil {
		return nil, s.fail("moving", err)
	}
	head, some := all[""]
	if !some {
		return nil, nil
	}
	number, rest, _ := strings.Cut(head, " ")
	tag, prefix, _ := strings.Cut(rest, " ")
	l := &Moving{From: keys.Partition{Prefix: prefix, Shard: place}, To: s.space.Place(tag)}
	if l.Number, err = strconv.ParseInt(number, 10, 64); err != nil || prefix == "" {
		return nil, fmt.Errorf("%w: %s begins with %q, which no version of this program writes", ErrLayout, s.space.Moving(place), head)
	}
	if l.To < 0 { // a shard that this Store has not learnt of yet
		return nil, errors.Join(s.learn(ctx, s.space.Base(place), s.view.Load()), s.fail("moving", ErrUnavailable))
	}
	for k, what := range all {
		if k != "" {
			l.what = append(l.what, k, what)
		}
	}
	return l, nil
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
	for _, p := range s.Prefixes() {
		some, err := s.c.HLen(ctx, s.space.Records(keys.Partition{Prefix: p, Shard: place})).Result()
		if err != nil {
			return 0, s.fail("kept", err)
		}
		n += some
	}
	return n, nil
}
