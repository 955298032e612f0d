package store

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/wire"
)

// Tombstones. A producer that got no answer repeats its schedule call, which must not make
// a second notice. While a finalized notice is kept, its record answers the call.
// When NOTIFIER_RETAIN trims it before NOTIFIER_REPEAT_WINDOW has passed, a tombstone
// stays in its place: digests of its key and content, and its generation, from which its
// id follows (notice.Tombstone).
//
// Tombstones stand in buckets, by the time at which their notices were settled, and are
// dropped by the bucket: when the window has passed, or, the oldest first, when they take
// more than NOTIFIER_REPEAT_BYTES. The scripts that schedule look into the buckets, which
// costs one EXISTS while there are none. Replays, restores and adoptions do not look, and
// neither does a call that replaces.
//
// A former shard keeps its tombstones until a mover has copied them to the others, as it
// does before it moves notices. Until then a schedule call looks there first.

var (
	//go:embed lua/buried.lua
	buriedSource string
	//go:embed lua/unbury.lua
	unburySource string
	//go:embed lua/tombsin.lua
	tombsInSource string
	//go:embed lua/tombsend.lua
	tombsEndSource string

	buriedScript   = wire.NewScript("buried", buriedSource, false)
	unburyScript   = wire.NewScript("unbury", unburySource, false)
	tombsInScript  = wire.NewScript("tombsin", tombsInSource, false)
	tombsEndScript = wire.NewScript("tombsend", tombsEndSource, false)
)

// bucketsInWindow is how many buckets cover the window. More waste less memory, since the
// oldest goes when all of it has passed the window; fewer make schedule calls cheaper.
const bucketsInWindow = 8

// tombsAtOnce is how many tombstones one step of a move takes.
const tombsAtOnce = 500

// RepeatWindow is for how long after it was settled a notice is to be recognised when its
// schedule call is repeated.
func (s *Store) RepeatWindow() time.Duration { return min(s.o.RepeatWindow, s.o.Retention) }

// tombs sends a script that only needs the tombstones of a place.
func (s *Store) tombs(ctx context.Context, place int, sc *wire.Script, args []any) *redis.Cmd {
	return s.w.Do(ctx, sc, []string{s.space.Tombstones(place)}, args)
}

// tombstoneOf reads the answer of schedule.lua that is a tombstone.
func tombstoneOf(v any) (notice.Tombstone, bool) {
	list, _ := v.([]any)
	if len(list) != 1 {
		return notice.Tombstone{}, false
	}
	text, _ := list[0].(string)
	return notice.ParseTombstone(text)
}

// settled is the reply to a request whose notice has a tombstone.
func (r *Request) settled(prefix string, t notice.Tombstone) Reply {
	n := &notice.Notice{Key: r.Key, Route: prefix, Made: t.Made}
	reply := Reply{Found: Found{Notice: n, State: notice.Settled}}
	if r.OnDuplicate != Keep && !t.Same(&r.Content) {
		reply.Differs = []string{"content"}
	}
	return reply
}

// digests are those of keys, as arguments of a script.
func digests(ks []string) []any {
	list := make([]any, len(ks))
	for i, k := range ks {
		list[i] = keys.AppendDigest(nil, k)
	}
	return list
}

// buriedFormerly finds the tombstones that former shards hold of some keys, by their
// number in ks.
func (s *Store) buriedFormerly(ctx context.Context, ks []string) (map[int]notice.Tombstone, error) {
	open, now := s.Formers(), s.space.Now()
	by := map[int][]int{}
	for i, k := range ks {
		for _, home := range now.Homes(k) {
			if slices.Contains(open, home) {
				by[home] = append(by[home], i)
			}
		}
	}

	found := map[int]notice.Tombstone{}
	for home, all := range by {
		for some := range slices.Chunk(all, amendAtOnce) {
			named := make([]string, len(some))
			for j, i := range some {
				named[j] = ks[i]
			}
			there, err := s.buriedIn(ctx, home, named)
			if err != nil {
				return nil, err
			}
			for j, t := range there {
				found[some[j]] = t
			}
		}
	}
	return found, nil
}

// buriedIn finds the tombstones of keys in one place, by their number in ks.
func (s *Store) buriedIn(ctx context.Context, place int, ks []string) (map[int]notice.Tombstone, error) {
	v, err := s.w.List(buriedScript.Op, s.tombs(ctx, place, buriedScript, digests(ks)))
	if err != nil {
		return nil, err
	}
	if len(v) != len(ks) {
		return nil, s.w.Fail(buriedScript.Op, fmt.Errorf("a reply of %d parts to %d keys", len(v), len(ks)))
	}
	found := map[int]notice.Tombstone{}
	for i := range v {
		text, _ := v[i].(string)
		if t, ok := notice.ParseTombstone(text); ok {
			found[i] = t
		}
	}
	return found, nil
}

// Unbury deletes the tombstones of keys wherever they may be.
func (s *Store) Unbury(ctx context.Context, ks []string) (n int, err error) {
	for place := range s.space.Places() {
		for some := range slices.Chunk(ks, tombsAtOnce) {
			gone, err := s.tombs(ctx, place, unburyScript, digests(some)).Int64()
			if err != nil {
				return n, s.w.Fail(unburyScript.Op, err)
			}
			n += int(gone)
		}
	}
	return n, nil
}

// Tombs are some tombstones of one bucket, each with the digest of its key.
type Tombs struct {
	Place  int
	Bucket string
	pairs  []string
}

// Buckets lists a place's buckets of tombstones, and how many each holds.
func (s *Store) Buckets(ctx context.Context, place int) (map[string]int64, error) {
	ends, err := s.c.ZRange(ctx, s.space.Tombstones(place), 0, -1).Result()
	if err != nil {
		return nil, s.w.Fail("tombstones", err)
	}
	sizes := make(map[string]int64, len(ends))
	for _, end := range ends {
		if sizes[end], err = s.c.HLen(ctx, s.space.Bucket(place, end)).Result(); err != nil {
			return nil, s.w.Fail("tombstones", err)
		}
	}
	return sizes, nil
}

// ReadTombs reads some tombstones of a bucket; a cursor of 0 begins, and ends.
func (s *Store) ReadTombs(ctx context.Context, place int, bucket string, cursor uint64) (Tombs, uint64, error) {
	pairs, next, err := s.c.HScan(ctx, s.space.Bucket(place, bucket), cursor, "", tombsAtOnce).Result()
	if err != nil {
		return Tombs{}, 0, s.w.Fail("tombstones", err)
	}
	return Tombs{place, bucket, pairs}, next, nil
}

// CopyTombs puts tombstones of a place of from into the shards that their keys belong to.
// It may be repeated.
func (s *Store) CopyTombs(ctx context.Context, t Tombs) error {
	by := map[int][]any{}
	for i := 0; i+1 < len(t.pairs); i += 2 {
		if shard := s.space.ShardOfDigest(t.pairs[i]); shard >= 0 {
			by[shard] = append(by[shard], t.pairs[i], t.pairs[i+1])
		}
	}
	for shard, pairs := range by {
		if err := s.tombs(ctx, shard, tombsInScript, append([]any{t.Bucket}, pairs...)).Err(); err != nil {
			return s.w.Fail(tombsInScript.Op, err)
		}
	}
	return nil
}

// MoveTombs moves all tombstones of a former shard to the shards that their keys belong
// to now.
func (s *Store) MoveTombs(ctx context.Context, place int) error {
	sizes, err := s.Buckets(ctx, place)
	if err != nil {
		return err
	}
	for bucket := range sizes {
		for cursor := uint64(0); ; {
			t, next, err := s.ReadTombs(ctx, place, bucket, cursor)
			if err != nil {
				return err
			}
			if err := s.CopyTombs(ctx, t); err != nil {
				return err
			}
			if err := s.endTombs(ctx, t); err != nil {
				return err
			}
			if cursor = next; cursor == 0 {
				break
			}
		}
	}
	return nil
}

// endTombs deletes tombstones where they have been.
func (s *Store) endTombs(ctx context.Context, t Tombs) error {
	args := []any{t.Bucket}
	for i := range t.pairs {
		args = append(args, t.pairs[i])
	}
	return s.w.Wrapped(tombsEndScript.Op, s.tombs(ctx, t.Place, tombsEndScript, args).Err())
}

// Trimmed is how far trimming has got in a place, in Unix ms by prefix, and "" of all
// tombstones: see trim.lua.
func (s *Store) Trimmed(ctx context.Context, place int) (map[string]int64, error) {
	texts, err := s.c.HGetAll(ctx, s.space.Trimmed(place)).Result()
	if err != nil {
		return nil, s.w.Fail("tombstones", err)
	}
	marks := make(map[string]int64, len(texts))
	for prefix, text := range texts {
		marks[prefix], _ = strconv.ParseInt(text, 10, 64)
	}
	return marks, nil
}

// CopyTrimmed notes in each shard how far trimming has got in a place of another Redis.
func (s *Store) CopyTrimmed(ctx context.Context, marks map[string]int64) error {
	now := s.space.Now()
	for shard := now.First(); shard < now.Places(); shard++ {
		have, err := s.Trimmed(ctx, shard)
		if err != nil {
			return err
		}
		for prefix, ms := range marks {
			if have[prefix] >= ms {
				continue
			}
			if err := s.c.HSet(ctx, now.Trimmed(shard), prefix, ms).Err(); err != nil {
				return s.w.Fail("tombstones", err)
			}
		}
	}
	return nil
}
