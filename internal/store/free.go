package store

import (
	"context"
	_ "embed"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/wire"
)

//go:embed lua/free.lua
var freeSource string

var freeScript = wire.NewScript("free", WithParts(freeSource), false)

// FreeReported lets the next notice of a sequence start after a consumer's report on a notice that was cancelled or
// replaced since. prefix is the one of the key's route; id and attempt are those of the report. Nothing is changed
// unless a sequence waits for exactly that attempt.
func (s *Store) FreeReported(ctx context.Context, prefix, key, id string, attempt int) error {
	prefixes := []string{prefix} // a notice that replaces another one may have a longer prefix
	if v := s.Layout.view.Load(); v != nil {
		prefixes = append(prefixes, v.Beside(prefix)...)
	}

	prefixes = slices.DeleteFunc(prefixes, func(p string) bool { return !s.Layout.knownOrdered(p) })
	if len(prefixes) == 0 {
		return nil
	}

	for _, shard := range append([]int{s.space.Shard(key)}, s.Layout.OldShards()...) {
		for _, p := range prefixes {
			if err := s.freeIn(ctx, keys.Partition{Prefix: p, Shard: shard}, key, id, attempt); err != nil {
				return err
			}
		}
	}

	return nil
}

// freeIn is FreeReported in one partition.
func (s *Store) freeIn(ctx context.Context, p keys.Partition, key, id string, attempt int) error {
	held, err := s.c.Get(ctx, s.space.Marker(p, keys.OrderKey(key))).Result()
	if errors.Is(err, redis.Nil) {
		return nil
	}
	if err != nil {
		return s.w.Fail(freeScript.Op, err)
	}

	token, of, _ := strings.Cut(held, " ")
	made, number, _ := strings.Cut(strings.TrimPrefix(token, reportToken), ":")
	generation, err := strconv.ParseInt(made, 10, 64)
	n := notice.Notice{Key: key, Made: notice.Made(generation)}
	if err != nil || of != key || number != strconv.Itoa(attempt) || n.ID() != id {
		return nil
	}

	err = s.Layout.Do(ctx, freeScript, []string{s.space.Shadow(p)}, []any{s.space.Wake(), p.Wake(), token, key}).Err()
	if err != nil {
		return s.w.Fail(freeScript.Op, err)
	}

	return nil
}
