package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"notifier/internal/fleet"
	"notifier/internal/keys"
	"notifier/internal/route"
	"notifier/internal/store"
	"notifier/internal/testkit"
	"notifier/internal/wire"
)

// runWorker runs an engine with a handler for a prefix on a cluster until stop is called or the test ends.
func runWorker(t *testing.T, srv *testkit.Redis, shards int, h *sink, prefix string) (stop func()) {
	t.Helper()
	r := testRoute(prefix, prefix)
	r.Target.Kind = route.KindWorker
	table, err := route.NewTable([]*route.Route{r})
	if err != nil {
		t.Fatal(err)
	}

	conn, err := wire.Open(wire.Address{Mode: "cluster", URL: "redis://" + srv.Addr()})
	if err != nil {
		t.Fatal(err)
	}

	e := New(Options{Conn: conn, Space: keys.Space{Namespace: "notifier", Shards: shards}, Routes: table, Instance: "worker", Concurrency: 64,
		Handler: h, Grace: 50 * time.Millisecond, Retention: time.Hour, Retain: 100_000, ConfigureRedis: true, Drain: 10 * time.Second,
		Logger: zap.NewNop()})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run the worker: %v", err)
		}

		e.Close(context.Background())
		_ = conn.Close()
	})
	t.Cleanup(stop)
	return stop
}

// lastOfFirst is the last slot of the first master.
const lastOfFirst = 8191

// holderOfWorkers returns the master that stores which workers run, and the other one.
func holderOfWorkers(t *testing.T, w *world, a, b *testkit.Redis) (holder, other *testkit.Redis) {
	if a.Client().ClusterKeySlot(t.Context(), w.store.Wire().Space.Serving()).Val() <= lastOfFirst {
		return a, b
	}
	return b, a
}

// Regression test: the time came from any node, so the workers were often unknown while a node without them was away.
func TestWorkersAreKnownWhileAnotherNodeIsAway(t *testing.T) {
	t.Parallel()
	a, b := testkit.StartCluster(t, lastOfFirst)
	w := startClusterWith(t, a, 4, func(o *Options) { o.Handler = newSink(1) }, testRoute("r", "app1"))
	_, other := holderOfWorkers(t, w, a, b)
	other.Pause()
	t.Cleanup(other.Unpause)
	for range 16 {
		if _, err := w.heartbeats().Serving(t.Context(), fleet.StaleAfter); err != nil {
			t.Fatal(err)
		}
	}
}

// The shards of a prefix are on two masters: each has the record, and the state of each refuses who does not know it.
func TestRecordedPrefixOnTwoMasters(t *testing.T) {
	t.Parallel()
	const shards, n, prefix = 4, 20, "app1:orders:close"
	a, b := testkit.StartCluster(t, lastOfFirst)
	byService, byWorker := newSink(1000), newSink(1000)
	w := startClusterWith(t, a, shards, func(o *Options) { o.Handler = byService }, testRoute("r", "app1"))
	schedule := func(kind string) {
		t.Helper()
		for i := range n {
			for _, p := range []string{prefix, "app1:orders:pay"} {
				if _, err := w.Schedule(t.Context(), store.Request{Key: fmt.Sprintf("%s:%s-%d", p, kind, i)}); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	recorded := func(workers int) {
		t.Helper()
		eventually(t, fmt.Sprintf("%d workers for the prefix", workers), func() bool {
			list, err := w.Recorded(t.Context())
			return err == nil && len(list) == 1 && list[0].Prefix == prefix && list[0].Workers == workers &&
				list[0].Handled.IsZero() == (workers < 0)
		})
	}

	stop := runWorker(t, a, shards, byWorker, prefix)
	recorded(1)
	schedule("first")
	byWorker.await(t, n)
	byService.await(t, n)
	if err := w.Release(t.Context(), prefix); !errors.Is(err, store.ErrHandled) {
		t.Errorf("%v, want ErrHandled while the worker is running", err)
	}

	stop()
	recorded(0)
	schedule("second")
	byService.await(t, n)
	if g, err := w.Gauges(t.Context()); err != nil || g.Unhandled != 1 {
		t.Errorf("%d prefixes are unhandled, want 1; %v", g.Unhandled, err)
	}

	holder, _ := holderOfWorkers(t, w, a, b)
	holder.Pause()
	recorded(-1)
	if err := w.Release(t.Context(), prefix); !errors.Is(err, wire.ErrUnavailable) {
		t.Errorf("%v, want ErrUnavailable while the workers are unknown", err)
	}

	holder.Unpause()
	recorded(0)
	if err := w.Release(t.Context(), prefix); err != nil {
		t.Fatal(err)
	}

	byService.await(t, n)
	byWorker.mu.Lock()
	defer byWorker.mu.Unlock()
	byService.mu.Lock()
	defer byService.mu.Unlock()
	for k := range byWorker.got {
		if !strings.HasPrefix(k, prefix+":first-") || len(byService.got[k]) > 0 {
			t.Errorf("%s was handled by the worker, and by the service %d times", k, len(byService.got[k]))
		}
	}

	for k, calls := range byService.got {
		if len(calls) != 1 {
			t.Errorf("%s was delivered %d times", k, len(calls))
		}
	}

	for place := range w.store.Space().Places() {
		name := w.store.Space().Layout(place)
		members := w.o.Conn.SMembers(t.Context(), strings.TrimSuffix(name, "layout")+"routes").Val()
		if len(store.RecordedIn(members)) > 0 || !slices.Contains(members, prefix+"=2:") {
			t.Errorf("shard %d has %q after the release", place, members)
		}
	}
}
