package wire

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/testkit"
)

// After as many failed dials as it may hold connections, a pool refuses calls for up to a second, whether the
// server is reachable or not.
func TestReturningServerIsDialledAtOnce(t *testing.T) {
	srv := testkit.StartRedis(t)
	c := redis.NewClient(&redis.Options{Addr: srv.Addr(), DisableIdentity: true, MaxRetries: -1, PoolSize: 2,
		Dialer: Lazy((&net.Dialer{Timeout: 30 * time.Second}).DialContext)})
	defer func() { _ = c.Close() }()
	ctx := t.Context()
	srv.Kill()
	for range 5 {
		var broken *net.OpError
		if err := c.Ping(ctx).Err(); !errors.As(err, &broken) || broken.Op != "dial" {
			t.Fatalf("%v, want that of a dial", err)
		}
	}
	pipe := c.Pipeline()
	ping := pipe.Ping(ctx)
	_, err := pipe.Exec(ctx)
	var broken *net.OpError
	if !errors.As(err, &broken) || broken.Op != "dial" || !errors.As(ping.Err(), &broken) {
		t.Errorf("a pipeline: %v, want that of a dial", err)
	}
	if err := c.Subscribe(ctx, "x").Ping(ctx); !errors.As(err, &broken) || broken.Op != "dial" {
		t.Errorf("a subscription: %v, want that of a dial", err)
	}
	srv.Restart()
	if err := c.Ping(ctx).Err(); err != nil {
		t.Errorf("the server is back, and the first call comes to %v", err)
	}
	gone, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := Lazy((&net.Dialer{}).DialContext)(gone, "tcp", srv.Addr()); err != nil {
		t.Errorf("the dial failed: %v", err)
	}
}
