package move

import (
	"context"
	_ "embed"
	"fmt"
	"math"
	"strconv"

	"notifier/internal/wire"
)

var (
	//go:embed lua/tombsin.lua
	tombsInSource string
	//go:embed lua/tombsend.lua
	tombsEndSource string

	tombsInScript  = wire.NewScript("tombsin", tombsInSource, false)
	tombsEndScript = wire.NewScript("tombsend", tombsEndSource, false)
)

// tombsAtOnce is the maximum number of tombstones in one step.
const tombsAtOnce = 500

// tombs is a page of the tombstones of one bucket.
type tombs struct {
	place  int
	bucket string
	pairs  []string // digest of the key, tombstone, …
}

// tombScript runs a script on the tombstones of a place.
func (s Redis) tombScript(ctx context.Context, sc *wire.Script, place int, bucket string, pairs []string) error {
	args := []any{bucket}
	for _, x := range pairs {
		args = append(args, x)
	}

	return s.Wire().Wrapped(sc.Op, s.Do(ctx, sc, []string{s.Space().Tombstones(place)}, args).Err())
}

// buckets returns the number of tombstones in each bucket of a place.
func (s Redis) buckets(ctx context.Context, place int) (map[string]int64, error) {
	ends, err := s.Wire().Redis.ZRange(ctx, s.Space().Tombstones(place), 0, -1).Result()
	if err != nil {
		return nil, s.Wire().Fail("tombstones", err)
	}

	sizes := make(map[string]int64, len(ends))
	for _, end := range ends {
		if sizes[end], err = s.Wire().Redis.HLen(ctx, s.Space().Bucket(place, end)).Result(); err != nil {
			return nil, s.Wire().Fail("tombstones", err)
		}
	}

	return sizes, nil
}

// eachTombs calls f with each page of the tombstones of a bucket.
func (s Redis) eachTombs(ctx context.Context, place int, bucket string, f func(tombs) error) error {
	return pages(func(cursor uint64) (uint64, error) {
		pairs, next, err := s.Wire().Redis.HScan(ctx, s.Space().Bucket(place, bucket), cursor, "", tombsAtOnce).Result()
		if err != nil {
			return 0, s.Wire().Fail("tombstones", err)
		}

		return next, f(tombs{place, bucket, pairs})
	})
}

// importTombs copies tombstones of another place, or of another Redis, to the shards of their keys. A
// repeated call changes nothing.
func (s Redis) importTombs(ctx context.Context, t tombs) error {
	by := map[int][]string{}
	for i := 0; i+1 < len(t.pairs); i += 2 {
		if shard := s.Space().ShardOfDigest(t.pairs[i]); shard >= 0 {
			by[shard] = append(by[shard], t.pairs[i], t.pairs[i+1])
		}
	}

	for shard, pairs := range by {
		if err := s.tombScript(ctx, tombsInScript, shard, t.bucket, pairs); err != nil {
			return err
		}
	}

	return nil
}

// MoveTombs moves all tombstones of an old shard to the current shards of their keys.
func (s Redis) MoveTombs(ctx context.Context, place int) error {
	sizes, err := s.buckets(ctx, place)
	if err != nil {
		return err
	}

	for bucket := range sizes {
		if err := s.eachTombs(ctx, place, bucket, func(t tombs) error {
			if err := s.importTombs(ctx, t); err != nil {
				return err
			}
			return s.tombScript(ctx, tombsEndScript, place, bucket, t.pairs)
		}); err != nil {
			return err
		}
	}

	return nil
}

// trimmed returns, by prefix, the time in Unix ms up to which a place has trimmed finalized notices.
// The value under "" is the time up to which it has dropped tombstones; see trim.lua.
func (s Redis) trimmed(ctx context.Context, place int) (map[string]int64, error) {
	texts, err := s.Wire().Redis.HGetAll(ctx, s.Space().Trimmed(place)).Result()
	if err != nil {
		return nil, s.Wire().Fail("tombstones", err)
	}

	marks := make(map[string]int64, len(texts))
	for prefix, text := range texts {
		marks[prefix], _ = strconv.ParseInt(text, 10, 64)
	}

	return marks, nil
}

// importTrimmed stores in each shard the times that trimmed has read in another Redis, unless the
// shard has a later one.
func (s Redis) importTrimmed(ctx context.Context, marks map[string]int64) error {
	now := s.Space().Now()
	for shard := now.First(); shard < now.Places(); shard++ {
		have, err := s.trimmed(ctx, shard)
		if err != nil {
			return err
		}

		for prefix, ms := range marks {
			if have[prefix] >= ms {
				continue
			}
			if err := s.Wire().Redis.HSet(ctx, now.Trimmed(shard), prefix, ms).Err(); err != nil {
				return s.Wire().Fail("tombstones", err)
			}
		}
	}

	return nil
}

// tombstones copies all tombstones from the old side to the new one. A tombstone is the digest of a notice whose
// record was deleted; schedule calls need it to recognise a repeated call. A later call copies only what has changed.
func (m *migrator) tombstones(ctx context.Context) error {
	for place := range m.from.Space().Places() {
		if err := m.tombstonesOf(ctx, place); err != nil {
			return err
		}
	}
	return nil
}

func (m *migrator) tombstonesOf(ctx context.Context, place int) error {
	trimmed, err := m.from.trimmed(ctx, place)
	if err != nil {
		return err
	}

	sizes, err := m.from.buckets(ctx, place)
	if err != nil {
		return err
	}

	// Buckets of tombstones by time. A bucket is copied again if the number of its tombstones has changed, or if
	// notices of its time were deleted since. Their tombstones may have replaced others of the same keys, so the
	// number may be the same.
	since := changedSince(m.trimmed[place], trimmed)
	for bucket, size := range sizes {
		name := fmt.Sprint(place, " ", bucket)
		if end, _ := strconv.ParseInt(bucket, 10, 64); m.copied[name] == size && end <= since {
			continue
		}

		if err := m.from.eachTombs(ctx, place, bucket, func(t tombs) error {
			return m.step("tombstones", func() error { return m.to.importTombs(ctx, t) })
		}); err != nil {
			return err
		}

		m.copied[name] = size
	}

	m.trimmed[place] = trimmed
	if len(sizes) == 0 {
		return nil
	}

	return m.step("trimmed", func() error { return m.to.importTrimmed(ctx, trimmed) })
}

// changedSince returns the earliest time, in Unix ms, of a notice that was deleted between two readings of the trim
// positions by prefix. Tombstone buckets that end earlier have not changed.
func changedSince(before, now map[string]int64) int64 {
	// Notices of one prefix are deleted in the order of that time.
	since := int64(math.MaxInt64)
	for prefix, ms := range now {
		if had := before[prefix]; had != ms {
			since = min(since, had)
		}
	}

	return since
}
