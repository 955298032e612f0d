package store

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/wire"
)

// Tombstones. A producer without an answer repeats its schedule call, which must not create a second
// notice. As long as a finalized notice is stored, its record answers the call. If NOTIFIER_RETAIN trims
// the notice before NOTIFIER_REPEAT_WINDOW has passed, a tombstone replaces it, unless Redis is full: digests
// of its key and content, and its generation, from which its id is derived (notice.Tombstone).
//
// Tombstones are stored in buckets, by the time at which their notices were settled. A bucket is deleted
// when the window has passed, or if all need more than the shard's part of NOTIFIER_REPEAT_BYTES; oldest first.
// schedule.lua reads all buckets, or needs one EXISTS if there are none. Replays, restores, adoptions
// and calls with Replace ignore tombstones.
//
// Package move copies the tombstones of an old shard to the current shards, before it moves notices.
// While the old shard may hold any, a schedule call checks it first.

//go:embed lua/buried.lua
var buriedSource string

var buriedScript = wire.NewScript("buried", buriedSource, false)

// bucketsInWindow is the number of buckets for the window. More buckets need less memory, because a
// bucket is deleted only when all of it is older than the window. Fewer make schedule calls cheaper.
const bucketsInWindow = 8

// RepeatWindow returns how long after its end a notice is recognized if its schedule call is repeated.
func (s *Store) RepeatWindow() time.Duration { return min(s.o.RepeatWindow, s.o.Retention) }

// tombs sends a script whose only key is that of a place's tombstones.
func (s *Store) tombs(ctx context.Context, place int, sc *wire.Script, args []any) *redis.Cmd {
	return s.Layout.Do(ctx, sc, []string{s.space.Tombstones(place)}, args)
}

// tombstoneOf parses a reply of schedule.lua that is a tombstone.
func tombstoneOf(v any) (notice.Tombstone, bool) {
	list, _ := v.([]any)
	if len(list) != 1 {
		return notice.Tombstone{}, false
	}

	text, _ := list[0].(string)
	return notice.ParseTombstone(text)
}

// settled returns the reply to a request whose notice has a tombstone.
func (r *Request) settled(prefix string, t notice.Tombstone) Reply {
	n := &notice.Notice{Key: r.Key, Route: prefix, Made: t.Made}
	reply := Reply{Found: Found{Notice: n, State: notice.Settled}}
	if r.OnDuplicate != Keep && !r.same(t) {
		reply.Differs = []string{"content"}
	}

	return reply
}

// digests returns the digests of keys, as arguments of a script.
func digests(ks []string) []any {
	list := make([]any, len(ks))
	for i, k := range ks {
		list[i] = keys.AppendDigest(nil, k)
	}

	return list
}

// tombstonesInOld returns the tombstones of keys in old shards, by index in ks.
func (s *Store) tombstonesInOld(ctx context.Context, ks []string) (map[int]notice.Tombstone, error) {
	open, now := s.Layout.OldShards(), s.space.Now()
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

			there, err := s.tombstonesIn(ctx, home, named)
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

// tombstonesIn returns the tombstones of keys in one place, by index in ks.
func (s *Store) tombstonesIn(ctx context.Context, place int, ks []string) (map[int]notice.Tombstone, error) {
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
