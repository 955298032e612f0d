package store

import (
	"context"
	_ "embed"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/wire"
)

//go:embed lua/hold.lua
var holdSource string

var holdScript = wire.NewScript("hold", holdSource, false).Anywhere()

// Resharding holds, for a while, that somebody who is called by a token runs a reshard;
// it reports false if another does. Who has no [Line] by the name of its token any more is
// dead, and holds nothing.
func (s *Store) Resharding(ctx context.Context, token string, during time.Duration) (bool, error) {
	dead := ""
	for range 2 {
		holder, err := s.w.Do(ctx, holdScript, []string{s.space.Resharding()},
			[]any{token, during.Milliseconds(), dead}).Text()
		if err != nil {
			return false, s.w.Fail(holdScript.Op, err)
		}
		if holder == token {
			return true, nil
		}
		own := s.space.InstanceChannel(holder)
		lines, err := s.w.Holder(ctx, s.space.FleetSigns()).PubSubNumSub(ctx, own).Result()
		if err != nil || lines[own] > 0 {
			return false, nil // or it cannot be seen: then its hold ends by itself
		}
		dead = holder
	}
	return false, nil
}

// IsResharding reports whether somebody runs a reshard.
func (s *Store) IsResharding(ctx context.Context) (bool, error) {
	n, err := s.c.Exists(ctx, s.space.Resharding()).Result()
	return n > 0, s.w.Wrapped("resharding", err)
}

// EndResharding gives that up.
func (s *Store) EndResharding(ctx context.Context, token string) error {
	if holder, err := s.c.Get(ctx, s.space.Resharding()).Result(); err != nil || holder != token {
		return nil
	}
	return s.w.Wrapped("resharding", s.c.Del(ctx, s.space.Resharding()).Err())
}

// Strangers are how many connections listen for what is due soon that are of none of the
// instances given: each instance, of any version, has one to each master, and the master
// that has most counts.
func (s *Store) Strangers(ctx context.Context, instances []string) (int64, error) {
	var mu sync.Mutex
	var most, known int64
	at := func(ctx context.Context, c redis.Cmdable) error {
		lines, err := c.PubSubNumSub(ctx, s.space.Wake()).Result()
		mu.Lock()
		defer mu.Unlock()
		most = max(most, lines[s.space.Wake()])
		return err
	}
	var err error
	if s.o.Conn != nil && s.o.Conn.Masters != nil {
		err = s.o.Conn.Masters(ctx, func(ctx context.Context, c *redis.Client) error { return at(ctx, c) })
	} else {
		err = at(ctx, s.c)
	}
	if err != nil {
		return 0, s.w.Fail("listen", err)
	}
	own := make([]string, len(instances))
	for i, id := range instances {
		own[i] = s.space.InstanceChannel(id)
	}
	if len(own) > 0 {
		lines, err := s.w.Holder(ctx, s.space.FleetSigns()).PubSubNumSub(ctx, own...).Result()
		if err != nil {
			return 0, s.w.Fail("listen", err)
		}
		for _, n := range lines {
			known += min(n, 1)
		}
	}
	return max(most-known, 0), nil
}
