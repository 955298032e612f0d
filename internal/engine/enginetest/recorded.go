package enginetest

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"notifier/internal/fleet"
)

// Record records a prefix for workers, as a number of workers would that handle it.
func (e *Engine) Record(prefix string, workers int) {
	e.t.Helper()
	ctx := context.Background()
	err := e.conn.SAdd(ctx, e.space.Routes(), prefix, prefix+"=1:worker").Err()
	now, terr := e.conn.Time(ctx).Result()
	if err == nil {
		err = terr
	}

	for i := range workers {
		if err == nil {
			member := fmt.Sprintf("%s=worker %d", prefix, i)
			err = e.conn.ZAdd(ctx, e.space.Serving(), redis.Z{Score: float64(now.UnixMilli()), Member: member}).Err()
		}
	}

	if err == nil {
		err = e.Engine.Store().Layout.Learn(ctx)
	}

	if err != nil {
		e.t.Fatal(err)
	}
}

// Recorded returns the recorded prefixes.
func (e *Engine) Recorded(ctx context.Context) ([]fleet.Recorded, error) {
	return attempt(e, func() ([]fleet.Recorded, error) { return e.Engine.Recorded(ctx) }, nil)
}

// Release releases a prefix.
func (e *Engine) Release(ctx context.Context, prefix string) error {
	return e.turn(1, func() error { return e.Engine.Release(ctx, prefix) })
}
