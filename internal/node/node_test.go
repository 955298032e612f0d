package node

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"notifier/internal/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// guarded is a client behind a gate, with counters of its calls.
func guarded(t *testing.T, addr string) (*Nodes, *redis.Client) {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: addr, DisableIdentity: true, MaxRetries: -1, ContextTimeoutEnabled: true,
		ReadTimeout: 3 * time.Second})
	n := New()
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
	eventually(t, "it runs", n.running.Load)
	return n, c
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	end, tick := time.After(30*time.Second), time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-end:
			t.Fatal("not within 30 s: " + what)
		case <-tick.C:
		}
	}
}

func TestHangingNodeIsAwayUntilItAnswers(t *testing.T) {
	srv := redistest.Start(t)
	n, c := guarded(t, srv.Addr())
	ctx := t.Context()
	get := func() error { return c.Get(ctx, "k").Err() }
	if err := get(); !errors.Is(err, redis.Nil) || n.Slow(srv.Addr()) || len(n.Away()) > 0 {
		t.Fatal(err, n.Away())
	}
	srv.Pause()
	late := make(chan error, 1)
	go func() { late <- get() }()
	eventually(t, "slow", func() bool { return n.Slow(srv.Addr()) })
	eventually(t, "away", func() bool { return len(n.Away()) == 1 })
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
