package wire

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/testkit"
)

// guarded is a client behind a gate, with counters of its calls.
func guarded(t *testing.T, addr string) (*Nodes, *redis.Client) {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: addr, DisableIdentity: true, MaxRetries: -1, ContextTimeoutEnabled: true,
		ReadTimeout: 3 * time.Second})
	n := NewNodes()
	n.Guard(c.Options().Addr, c)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- n.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
		_ = c.Close()
	})
	testkit.Until(t, "it runs", n.running.Load)
	return n, c
}

func TestHangingNodeIsAwayUntilItAnswers(t *testing.T) {
	srv := testkit.StartRedis(t)
	n, c := guarded(t, srv.Addr())
	ctx := t.Context()
	get := func() error { return c.Get(ctx, "k").Err() }
	if err := get(); !errors.Is(err, redis.Nil) || n.Slow(srv.Addr()) || len(n.Away()) > 0 {
		t.Fatal(err, n.Away())
	}
	srv.Pause()
	late := make(chan error, 1)
	go func() { late <- get() }()
	testkit.Until(t, "slow", func() bool { return n.Slow(srv.Addr()) })
	testkit.Until(t, "away", func() bool { return len(n.Away()) == 1 })
	if err := get(); !errors.Is(err, ErrAway) {
		t.Errorf("%v, want it refused", err)
	}
	if _, err := c.Pipelined(ctx, func(p redis.Pipeliner) error { p.Get(ctx, "k"); return nil }); !errors.Is(err, ErrAway) {
		t.Errorf("%v of a pipeline, want it refused", err)
	}
	<-late
	if err := get(); !errors.Is(err, ErrAway) {
		t.Errorf("%v without waiting calls, want it refused", err)
	}
	select {
	case <-n.Back():
		t.Error("it is said to be back")
	default:
	}
	srv.Unpause()
	from := time.Now()
	<-n.Back()
	t.Logf("back %s after it went on", time.Since(from))
	if err := get(); !errors.Is(err, redis.Nil) || n.Slow(srv.Addr()) || len(n.Away()) > 0 {
		t.Error(err, n.Away())
	}
}
