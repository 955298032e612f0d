package intake

import (
	"context"

	"github.com/redis/go-redis/v9"

	"notifier/internal/store"
	"notifier/internal/wire"
)

// Redis is the AdopterStore of an Adopter: plain timers, and the notices of their keys. Its scripts run
// under the guard of package store.
type Redis struct{ *store.Store }

var _ AdopterStore = Redis{}

// Timers calls f with pages of all keys in Redis that match a pattern. A key that exists during the
// whole call is included.
func (s Redis) Timers(ctx context.Context, masters func(context.Context, func(context.Context, redis.Cmdable) error) error, pattern string,
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

	return masters(ctx, scan)
}
