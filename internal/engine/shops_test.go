package engine_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"notifier/internal/callback"
	"notifier/internal/engine"
	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/telemetry"
	"notifier/internal/testkit"
	"notifier/internal/wire"
)

// shopRoute is a route to the receivers on this host that the notices name.
func shopRoute(t *testing.T) *route.Route {
	t.Helper()
	allow, err := route.ParseAllow("127.0.0.0/8")
	if err != nil {
		t.Fatal(err)
	}
	return &route.Route{Name: "shops", Prefix: "app1", Target: route.Target{Kind: route.KindNotice}, Ladder: notice.DefaultLadder,
		Timeout: 10 * time.Second, Ack: route.Ack{Kind: route.Ack2xx}, Concurrency: 64, HostConcurrency: 16, Allow: allow}
}

// runShops runs an engine with one route and real calls until stop, at the latest until
// the test ends.
func runShops(t *testing.T, srv *testkit.Redis, r *route.Route) (e *engine.Engine, m *telemetry.Metrics, stop func()) {
	t.Helper()
	table, err := route.NewTable([]*route.Route{r})
	if err != nil {
		t.Fatal(err)
	}
	conn, err := wire.Open(wire.Address{URL: srv.URL()})
	if err != nil {
		t.Fatal(err)
	}

	h := callback.New(callback.Options{})
	m = telemetry.NewMetrics(telemetry.MetricsOptions{Routes: table.All()})
	e = engine.New(engine.Options{Conn: conn, Space: keys.Space{Namespace: srv.Namespace(), Shards: 1}, Routes: table,
		Handler: h, Instance: t.Name(), Concurrency: 512, Grace: 50 * time.Millisecond,
		Retention: time.Minute, Retain: 1000, ConfigureRedis: true, Drain: 10 * time.Second, Metrics: m, Logger: zap.NewNop()})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()

	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		e.Close(context.WithoutCancel(ctx))
		h.Close()
		_ = conn.Close()
	})
	t.Cleanup(stop)

	testkit.Next(t, "subscribed", e.Subscribed())
	return e, m, stop
}
