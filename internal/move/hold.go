package move

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

// hold acquires or extends the lock that allows only one reshard or migration at a time in this namespace. token
// identifies the caller, and the lock expires after during. hold returns true if the caller has the lock. If the holder
// of the lock has died, so that its connection is closed, the caller gets the lock at once.
func (s Redis) hold(ctx context.Context, token string, during time.Duration) (bool, error) {
	name, dead := []string{s.Space().Resharding()}, ""
	for range 2 {
		holder, err := s.Wire().Do(ctx, holdScript, name, []any{token, during.Milliseconds(), dead}).Text()
		if err != nil {
			return false, s.Wire().Fail(holdScript.Op, err)
		}
		if holder == token {
			return true, nil
		}

		// Every mover subscribes to a channel of its own while it runs. So a holder without a subscriber is dead.
		n, err := s.subscribers(ctx, []string{holder})
		if err != nil || n > 0 {
			return false, nil // if the check failed, the lock expires in time
		}

		dead = holder
	}

	return false, nil
}

// IsHeld reports whether a reshard or a migration is running.
func (s Redis) IsHeld(ctx context.Context) (bool, error) {
	n, err := s.Wire().Redis.Exists(ctx, s.Space().Resharding()).Result()
	return n > 0, s.Wire().Wrapped("resharding", err)
}

// release releases the lock.
func (s Redis) release(ctx context.Context, token string) error {
	name := s.Space().Resharding()
	if holder, err := s.Wire().Redis.Get(ctx, name).Result(); err != nil || holder != token {
		return nil
	}

	return s.Wire().Wrapped("resharding", s.Wire().Redis.Del(ctx, name).Err())
}

// unidentified counts connected instances whose ids are not in the list.
func (s Redis) unidentified(ctx context.Context, instances []string) (int64, error) {
	// Every instance, of any version, has one subscription to the wake channel at each master. In a cluster, use
	// the master with the most subscribers.
	var mu sync.Mutex
	var most int64
	count := func(ctx context.Context, c redis.Cmdable) error {
		subscribers, err := c.PubSubNumSub(ctx, s.Space().Wake()).Result()
		mu.Lock()
		defer mu.Unlock()
		most = max(most, subscribers[s.Space().Wake()])
		return err
	}

	var err error
	if conn := s.Wire().Conn; conn != nil && conn.Masters != nil {
		err = conn.Masters(ctx, count)
	} else {
		err = count(ctx, s.Wire().Redis)
	}

	if err != nil {
		return 0, s.Wire().Fail("listen", err)
	}

	known, err := s.subscribers(ctx, instances)
	if err != nil {
		return 0, s.Wire().Fail("listen", err)
	}

	return max(most-known, 0), nil
}

// subscribers counts the given instances and movers that are subscribed to their own channels.
func (s Redis) subscribers(ctx context.Context, ids []string) (n int64, err error) {
	if len(ids) == 0 {
		return 0, nil
	}

	own := make([]string, len(ids))
	for i, id := range ids {
		own[i] = s.Space().InstanceChannel(s.Wire().DB, id)
	}

	list, err := s.Wire().Holder(ctx, s.Space().FleetSigns()).PubSubNumSub(ctx, own...).Result()
	for _, subscribers := range list {
		n += min(subscribers, 1)
	}

	return n, err
}
