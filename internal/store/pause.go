package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/redis/go-redis/v9"

	"notifier/internal/wire"
)

// The paused routes are in one set, which decides while it can be read. Each shard has a copy in
// its own slot, for the time in which the set's cluster node is unreachable.

// Pause stops the claims of a route on all instances; its notices stay. Instances receive it on the
// wake channel, or notice it within seconds.
func (s *Layout) Pause(ctx context.Context, prefix string) error {
	return s.setPaused(ctx, "pause", func(p redis.Pipeliner, set string) { p.SAdd(ctx, set, prefix) }, prefix)
}

// Resume reverts Pause.
func (s *Layout) Resume(ctx context.Context, prefix string) error {
	return s.setPaused(ctx, "resume", func(p redis.Pipeliner, set string) { p.SRem(ctx, set, prefix) }, prefix)
}

// setPaused changes the set of paused prefixes, and then each shard's copy. A copy on an
// unreachable node is updated later: see Pauses.
func (s *Layout) setPaused(ctx context.Context, op string, change func(p redis.Pipeliner, set string), prefix string) error {
	if err := s.Known(ctx); err != nil {
		return err
	}
	if s.Side().State == SideComing { // it receives the paused prefixes of the source
		return fmt.Errorf("%s: %w", op, wire.ErrMoved)
	}

	if _, err := s.c.Pipelined(ctx, func(p redis.Pipeliner) error {
		change(p, s.space.Paused())
		return nil
	}); err != nil {
		return s.w.Fail(op, err)
	}

	if err := s.eachCopy(ctx, s.space.ShardPaused, change); err != nil {
		return err
	}

	return s.Publish(ctx, "paused "+prefix)
}

// eachCopy applies do to each shard's copy of a set, which name names. In a cluster it skips nodes that
// do not answer.
func (s *Layout) eachCopy(ctx context.Context, name func(shard int) string, do func(p redis.Pipeliner, set string)) error {
	all := make([]string, s.space.Places())
	for shard := range all {
		all[shard] = name(shard)
	}

	return s.w.EachNode(ctx, all, nil, func(ctx context.Context, some []string) error {
		_, err := s.c.Pipelined(ctx, func(p redis.Pipeliner) error {
			for _, set := range some {
				do(p, set)
			}
			return nil
		})
		if err = s.w.Wrapped("paused", err); s.w.Cluster && errors.Is(err, wire.ErrUnavailable) {
			return nil
		}

		return err
	})
}

// CopyPaused updates each shard's copy of the paused prefixes.
func (s *Layout) CopyPaused(ctx context.Context) error {
	paused, err := s.c.SMembers(ctx, s.space.Paused()).Result()
	if err != nil {
		return s.w.Fail("paused", err)
	}

	members := wire.Texts(paused)
	return s.eachCopy(ctx, s.space.ShardPaused, func(p redis.Pipeliner, set string) {
		p.Del(ctx, set)
		if len(members) > 0 {
			p.SAdd(ctx, set, members...)
		}
	})
}

// Pauses lists the paused prefixes, as far as they can be read.
type Pauses struct {
	// Shards has the sorted paused prefixes of each shard; nil = unknown.
	Shards [][]string
	// Stale is set if a shard's copy must be updated: see CopyPaused.
	Stale bool
}

// Pauses reads the paused prefixes. It fails if they are unknown for every shard.
func (s *Layout) Pauses(ctx context.Context) (Pauses, error) { return s.pauses(ctx, nil) }

// pauses is Pauses without calls to nodes that are known not to answer.
func (s *Layout) pauses(ctx context.Context, silent map[string]error) (Pauses, error) {
	all := []string{s.space.Paused()}
	shards := s.space.Places()
	if s.w.Cluster {
		for shard := range shards {
			all = append(all, s.space.ShardPaused(shard))
		}
	}

	var mu sync.Mutex
	read := map[string][]string{}
	err := s.w.EachNode(ctx, all, silent, func(ctx context.Context, some []string) error {
		sets := make([]*redis.StringSliceCmd, len(some))
		_, err := s.c.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i, set := range some {
				sets[i] = p.SMembers(ctx, set)
			}
			return nil
		})
		mu.Lock()
		defer mu.Unlock()
		for i, set := range some {
			if sets[i].Err() == nil {
				list := append([]string{}, sets[i].Val()...)
				slices.Sort(list)
				read[set] = list
			}
		}

		return s.w.Wrapped("paused", err)
	})
	decided, ok := read[s.space.Paused()]
	p := Pauses{Shards: make([][]string, shards)}
	for shard := range shards {
		own, has := read[s.space.ShardPaused(shard)]
		p.Shards[shard] = own
		if ok {
			p.Shards[shard] = decided
			p.Stale = p.Stale || has && !slices.Equal(own, decided)
		}
	}

	if len(read) == 0 {
		if err == nil {
			err = s.w.Fail("paused", wire.ErrUnavailable)
		}
		return p, err
	}

	return p, nil
}

// Paused returns the paused prefixes of all shards for which they are known.
func (s *Layout) Paused(ctx context.Context) ([]string, error) { return s.pausedBut(ctx, nil) }

// pausedBut is Paused without calls to nodes that are known not to answer.
func (s *Layout) pausedBut(ctx context.Context, silent map[string]error) ([]string, error) {
	p, err := s.pauses(ctx, silent)
	if err != nil {
		return nil, err
	}

	var list []string
	for _, some := range p.Shards {
		list = append(list, some...)
	}

	slices.Sort(list)
	return slices.Compact(list), nil
}

// Publish sends a message to all instances.
func (s *Layout) Publish(ctx context.Context, message string) error {
	if err := s.w.AnyNode(ctx).Publish(ctx, s.space.Wake(), message).Err(); err != nil {
		return s.w.Fail("publish", err)
	}
	return nil
}
