package adopt

import (
	"context"

	"github.com/redis/go-redis/v9"

	"notifier/internal/store"
	"notifier/internal/wire"
)

// Redis is the Store of an Adopter: plain timers, and the notices of their keys. Its scripts run
// under the guard of package store.
type Redis struct{ *store.Store }

var _ Store = Redis{}

// Timers calls f with pages of all keys in Redis that match a pattern. A key that exists during the
// whole call is included.
func (s Redis) Timers(ctx context.Context, masters func(context.Context, func(context.Context, *redis.Client) error) error, pattern string,
	n int64,
	f func(ctx context.Context, ks []string) error) error {
	scan := func(ctx context.Context, c redis.Cmdable) error {
		cursor := uint64(0)
		for {
			part, cancel := ctx, context.CancelFunc(func() {})
			if masters != nil { // other goroutines wait for it
				part, cancel = context.WithTimeout(ctx, wire.NodeTimeout)
			}

			ks, next, err := c.Scan(part, cursor, pattern, n).Result()
			cancel()
			if err != nil {
				return s.Wire().Fail("scan", err)
			}

			if len(ks) > 0 {
				if err := f(ctx, ks); err != nil {
					return err
				}
			}

			if cursor = next; cursor == 0 {
				return nil
			}
		}
	}
	if masters == nil {
		return scan(ctx, s.Wire().Redis)
	}

	return masters(ctx, func(ctx context.Context, c *redis.Client) error { return scan(ctx, c) })
}

// Stranded reports, for each key, whether its notice is still in an old shard, one that a reshard has replaced.
func (s Redis) Stranded(ctx context.Context, ks []string) ([]bool, error) {
	for {
		now := s.Space().Now()
		found := make([]bool, len(ks))
		if now.First() == 0 {
			return found, nil
		}

		// Check also old shards that are known to be empty. A writer that does not know of the reshard, such as an old
		// copy of deploy/schedule.lua, may have written there since. Then store.Store.Where does not find the notice
		// until store.Layout.Drained has moved it.
		lies, err := s.Layout.FindInOld(ctx, now, ks, func(int) bool { return true })
		if err != nil {
			return nil, err
		}

		for i := range lies {
			found[i] = true
		}

		if s.Space().First() == now.First() {
			return found, nil
		}
	}
}
