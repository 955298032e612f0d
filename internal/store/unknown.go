package store

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keys"
)

// Unknown returns the keys of one partition without a record, unless they have moved to the other
// side of a migration. It also returns those whose notice was settled or died longer than late ago.
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
