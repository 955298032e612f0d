package store

import (
	"context"
	_ "embed"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

//go:embed lua/trim.lua
var trimSource string

//go:embed lua/rehome.lua
var rehomeSource string

var (
	trimScript   = redis.NewScript(trimSource)
	rehomeScript = redis.NewScript(rehomeSource)
)

// Layout is the version of what stands in Redis; a different one is refused.
const Layout = 1

// ErrLayout: what stands in Redis was written with other settings.
var ErrLayout = fmt.Errorf("the data in Redis has another layout")

// CheckMeta writes layout version and shard count on the first start, and
// refuses to run on data that were written with others.
func (s *Store) CheckMeta(ctx context.Context) error {
	m := s.space.Meta()
	_, err := s.c.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.HSetNX(ctx, m, "layout", Layout)
		p.HSetNX(ctx, m, "shards", s.space.Shards)
		return nil
	})
	if err != nil {
		return s.fail("meta", err)
	}
	got, err := s.c.HGetAll(ctx, m).Result()
	if err != nil {
		return s.fail("meta", err)
	}
	if got["layout"] != strconv.Itoa(Layout) {
		return fmt.Errorf("%w: %s says layout %s, this program writes %d; run the version that wrote it, or another NOTIFIER_NAMESPACE",
			ErrLayout, m, got["layout"], Layout)
	}
	if got["shards"] != strconv.Itoa(s.space.Shards) {
		return fmt.Errorf("%w: %s says %s shards, NOTIFIER_SHARDS is %d; set NOTIFIER_SHARDS=%s, or use another NOTIFIER_NAMESPACE",
			ErrLayout, m, got["shards"], s.space.Shards, got["shards"])
	}
	return nil
}

// Register notes prefixes that may hold notices.
func (s *Store) Register(ctx context.Context, prefixes []string) error {
	if len(prefixes) == 0 {
		return nil
	}
	args := make([]any, len(prefixes))
	for i, p := range prefixes {
		args[i] = p
	}
	if err := s.c.SAdd(ctx, s.space.Routes(), args...).Err(); err != nil {
		return s.fail("register", err)
	}
	return nil
}

// Prefixes lists every prefix that ever held notices.
func (s *Store) Prefixes(ctx context.Context) ([]string, error) {
	p, err := s.c.SMembers(ctx, s.space.Routes()).Result()
	if err != nil {
		return nil, s.fail("routes", err)
	}
	return p, nil
}

// Forget drops a prefix that holds nothing any more.
func (s *Store) Forget(ctx context.Context, prefix string) error {
	if err := s.c.SRem(ctx, s.space.Routes(), prefix).Err(); err != nil {
		return s.fail("forget", err)
	}
	return nil
}

// Pause stops claims of a route everywhere; its notices stay. Instances hear of
// it on the wake channel, or within seconds.
func (s *Store) Pause(ctx context.Context, prefix string) error {
	if err := s.c.SAdd(ctx, s.space.Paused(), prefix).Err(); err != nil {
		return s.fail("pause", err)
	}
	return s.Publish(ctx, "paused "+prefix)
}

// Resume undoes Pause.
func (s *Store) Resume(ctx context.Context, prefix string) error {
	if err := s.c.SRem(ctx, s.space.Paused(), prefix).Err(); err != nil {
		return s.fail("resume", err)
	}
	return s.Publish(ctx, "paused "+prefix)
}

// Paused lists the paused prefixes.
func (s *Store) Paused(ctx context.Context) ([]string, error) {
	p, err := s.c.SMembers(ctx, s.space.Paused()).Result()
	if err != nil {
		return nil, s.fail("paused", err)
	}
	return p, nil
}

// Publish sends a message to all instances.
func (s *Store) Publish(ctx context.Context, message string) error {
	if err := s.c.Publish(ctx, s.space.Wake(), message).Err(); err != nil {
		return s.fail("publish", err)
	}
	return nil
}

// Trim forgets at most n settled notices of one route and shard that are too
// old or, if they are older than young, too many; and says how many it forgot.
func (s *Store) Trim(ctx context.Context, prefix string, shard, n int, young time.Duration) (int, error) {
	k, err := trimScript.Run(ctx, s.c, []string{s.space.Settled(shard, prefix), s.space.Records(shard, prefix)},
		s.o.Retention.Milliseconds(), s.o.Retain, n, young.Milliseconds()).Int()
	if err != nil {
		return 0, s.fail("trim", err)
	}
	return k, nil
}

// Kept reads keys that a prefix holds in one shard, some at a time: pass the
// cursor on until it is 0.
func (s *Store) Kept(ctx context.Context, prefix string, shard int, cursor uint64, n int64) (ks []string, next uint64, err error) {
	fields, next, err := s.c.HScanNoValues(ctx, s.space.Records(shard, prefix), cursor, "", n).Result()
	if err != nil {
		// HSCAN … NOVALUES is of Redis 7.4; before it the values come along.
		fields, next, err = s.c.HScan(ctx, s.space.Records(shard, prefix), cursor, "", n).Result()
		if err != nil {
			return nil, 0, s.fail("kept", err)
		}
		for i := 0; i < len(fields); i += 2 {
			ks = append(ks, fields[i])
		}
		return ks, next, nil
	}
	return fields, next, nil
}

// Rehome moves notices of one shard from one prefix to another.
func (s *Store) Rehome(ctx context.Context, from, to string, shard int, ks []string) (int, error) {
	args := []any{s.space.ClaimPrefix(shard)}
	for _, k := range ks {
		args = append(args, k)
	}
	n, err := rehomeScript.Run(ctx, s.c, append(s.four(shard, from), s.four(shard, to)...), args...).Int()
	if err != nil {
		return 0, s.fail("rehome", err)
	}
	return n, nil
}

// Counts says what Redis holds of a route, over all shards.
func (s *Store) Counts(ctx context.Context, prefix string) (Counts, error) {
	c := Counts{Prefix: prefix}
	now, err := s.c.Time(ctx).Result()
	if err != nil {
		return c, s.fail("counts", err)
	}
	ms := strconv.FormatInt(now.UnixMilli(), 10)
	for shard := range s.space.Shards {
		k := s.four(shard, prefix)
		var pending, overdue, dead, settled *redis.IntCmd
		var next *redis.ZSliceCmd
		_, err := s.c.Pipelined(ctx, func(p redis.Pipeliner) error {
			pending, dead, settled = p.ZCard(ctx, k[0]), p.ZCard(ctx, k[2]), p.ZCard(ctx, k[3])
			overdue = p.ZCount(ctx, k[0], "-inf", ms)
			next = p.ZRangeWithScores(ctx, k[0], 0, 0)
			return nil
		})
		if err != nil {
			return c, s.fail("counts", err)
		}
		c.Pending += pending.Val()
		c.Overdue += overdue.Val()
		c.Dead += dead.Val()
		c.Settled += settled.Val()
		if z := next.Val(); len(z) > 0 {
			if at := time.UnixMilli(int64(z[0].Score)).UTC(); c.NextDue.IsZero() || at.Before(c.NextDue) {
				c.NextDue = at
			}
		}
	}
	paused, err := s.c.SIsMember(ctx, s.space.Paused(), prefix).Result()
	if err != nil {
		return c, s.fail("counts", err)
	}
	c.Paused = paused
	return c, nil
}
