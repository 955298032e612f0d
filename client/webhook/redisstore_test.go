package webhook_test

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/client/webhook"
)

// redisStore is an example of a store in Redis. A callback whose process died is answered with 409 until the lease ends. Then it is
// processed again: the lease must be longer than any handler takes.
type redisStore struct {
	rdb         *redis.Client
	lease, keep time.Duration
}

func newRedisStore(rdb *redis.Client, lease, keep time.Duration) redisStore {
	return redisStore{rdb, lease, keep}
}

type tokenKey struct{}

// end sets or deletes the key only while it has the token of the handler: after the lease another handler may have it.
var end = redis.NewScript(`
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
if ARGV[2] == '0' then return redis.call('DEL', KEYS[1]) end
redis.call('SET', KEYS[1], 'done', 'PX', ARGV[2])
return 1`)

func (s redisStore) Begin(ctx context.Context, key string) (context.Context, webhook.State, error) {
	token := rand.Text()
	held, err := s.rdb.SetArgs(ctx, "webhook:"+key, token, redis.SetArgs{Mode: "NX", Get: true, TTL: s.lease}).Result()
	switch {
	case errors.Is(err, redis.Nil):
		return context.WithValue(ctx, tokenKey{}, token), webhook.StateNew, nil
	case err != nil:
		return ctx, 0, err
	case held == "done":
		return ctx, webhook.StateDone, nil
	}
	return ctx, webhook.StateRunning, nil
}

func (s redisStore) Done(ctx context.Context, key string) error { return s.end(ctx, key, s.keep) }

func (s redisStore) Forget(ctx context.Context, key string) error { return s.end(ctx, key, 0) }

func (s redisStore) end(ctx context.Context, key string, keep time.Duration) error {
	ended, err := end.Run(ctx, s.rdb, []string{"webhook:" + key}, ctx.Value(tokenKey{}), keep.Milliseconds()).Int()
	if err == nil && ended == 0 {
		err = errors.New("the handler took longer than the lease")
	}
	return err
}
