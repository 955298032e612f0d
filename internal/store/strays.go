package store

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keys"
	"notifier/internal/wire"
)

//go:embed lua/strays.lua
var straysSource string

var straysScript = wire.NewScript("strays", straysSource, false)

// strayBatch is how many notices one call of Strays looks at.
const strayBatch = 500

// Strays finds pending notices of one partition whose timers are not as
// the shadow has them. It looks at all of them, some at a time: pass on the
// cursor, "0" at first, until it is "0" again.
func (s *Store) Strays(ctx context.Context, p keys.Partition, cursor string) (ks []string, next string, err error) {
	_, ks, next, err = s.strays(ctx, p, "a", cursor)
	return ks, next, err
}

// StraysDue finds them among those that are due within a while, at most so many
// as one call looks at, and says how long it is to the first that is due later; 0
// if none is pending.
func (s *Store) StraysDue(ctx context.Context, p keys.Partition, within time.Duration) (ks []string, next time.Duration, err error) {
	now, ks, score, err := s.strays(ctx, p, "d", strconv.FormatInt(within.Milliseconds(), 10))
	if err != nil || score == "" {
		return ks, 0, err
	}
	return ks, attention(score).Sub(now), nil
}

func (s *Store) strays(ctx context.Context, p keys.Partition, mode, arg string) (now time.Time, ks []string, next string, err error) {
	v, err := s.w.Run(ctx, straysScript, []string{s.space.Shadow(p)}, []any{mode, arg, strayBatch})
	if err != nil {
		return now, nil, "", err
	}
	if len(v) < 2 {
		return now, nil, "", fmt.Errorf("strays: %d answers", len(v))
	}
	next, _ = v[1].(string)
	for _, x := range v[2:] {
		k, _ := x.(string)
		ks = append(ks, k)
	}
	return wire.Micros(v[0]), ks, next, nil
}

// Evicts reports whether Redis may delete timers to make room, or may not be
// asked.
func (s *Store) Evicts(ctx context.Context) (bool, error) {
	info, err := s.w.AnyNode(ctx).Info(ctx, "memory").Result()
	if redis.IsPermissionError(err) || redis.HasErrorPrefix(err, "ERR") {
		return true, nil
	}
	if err != nil {
		return true, s.w.Fail("info", err)
	}
	limited, policy := false, ""
	for line := range strings.Lines(info) {
		if v, ok := strings.CutPrefix(line, "maxmemory:"); ok {
			limited = strings.TrimSpace(v) != "0"
		}
		if v, ok := strings.CutPrefix(line, "maxmemory_policy:"); ok {
			policy = strings.TrimSpace(v)
		}
	}
	return limited && policy != "noeviction", nil
}

// Unknown returns those of the keys of one partition that have no record and have not moved to
// the other side of a migration, and those whose notice was settled or died longer than late
// ago.
func (s *Store) Unknown(ctx context.Context, p keys.Partition, ks []string, late time.Duration) (none, old []string, _ error) {
	k := s.space.States(p)
	has, crossed := make([]*redis.BoolCmd, len(ks)), make([]*redis.BoolCmd, len(ks))
	ends := make([][2]*redis.FloatCmd, len(ks))
	now, err := s.w.Holder(ctx, s.space.Base(p.Shard)).Time(ctx).Result()
	if err != nil {
		return nil, nil, s.w.Fail("unknown", err)
	}
	_, err = s.c.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i, key := range ks {
			has[i], crossed[i] = pipe.HExists(ctx, k[1], key), pipe.SIsMember(ctx, s.space.Crossed(p.Shard), key)
			ends[i] = [2]*redis.FloatCmd{pipe.ZScore(ctx, k[2], key), pipe.ZScore(ctx, k[3], key)}
		}
		return nil
	})
	if err != nil && !errors.Is(err, redis.Nil) {
		return nil, nil, s.w.Fail("unknown", err)
	}
	before := float64(now.Add(-late).UnixMilli())
	for i, key := range ks {
		if !has[i].Val() {
			if !crossed[i].Val() {
				none = append(none, key)
			}
			continue
		}
		for _, z := range ends[i] {
			if z.Err() == nil && z.Val() < before {
				old = append(old, key)
				break
			}
		}
	}
	return none, old, nil
}
