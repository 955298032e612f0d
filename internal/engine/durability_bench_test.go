package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/testkit"
	"notifier/internal/wire"
)

// BenchmarkDurability schedules from 64 callers, one notice each, at each level of
// durability and with the syncs that a Redis may make; the replica is on this machine.
// p50-us and p99-us are of a call.
func BenchmarkDurability(b *testing.B) {
	for _, c := range []struct{ level, aof string }{
		{"memory", "appendonly no"}, {"memory", "appendfsync everysec"}, {"memory", "appendfsync always"},
		{"replicas:1", "appendonly no"}, {"fsync", "appendfsync always"},
	} {
		b.Run(c.level+"/"+strings.ReplaceAll(c.aof, " ", "-"), func(b *testing.B) {
			srv := testkit.StartRedis(b, testkit.WithConfig("repl-diskless-sync-delay 0", "appendonly yes", c.aof))
			d, err := notice.ParseDurability(c.level)
			if err != nil {
				b.Fatal(err)
			}
			if d.Replicas > 0 {
				testkit.StartRedis(b, testkit.WithConfig("replicaof "+strings.ReplaceAll(srv.Addr(), ":", " ")))
				testkit.Until(b, "the replica is there", func() bool {
					return strings.Contains(srv.Client().Info(b.Context(), "replication").Val(), "state=online")
				})
			}
			e := durableEngine(b, srv, wire.Confirm{Durability: d, Timeout: 10 * time.Second})
			took := make([]time.Duration, b.N)
			var next atomic.Int64
			var wg sync.WaitGroup
			from := time.Now()
			b.ResetTimer()
			for range 64 {
				wg.Go(func() {
					for {
						i := int(next.Add(1)) - 1
						if i >= b.N {
							return
						}
						began := time.Now()
						if _, err := e.Schedule(context.Background(), request(i, time.Hour, time.Time{})); err != nil {
							b.Error(err)
							return
						}
						took[i] = time.Since(began)
					}
				})
			}
			wg.Wait()
			all := time.Since(from)
			b.StopTimer()
			slices.Sort(took)
			b.ReportMetric(float64(b.N)/all.Seconds(), "notices/s")
			b.ReportMetric(float64(took[b.N/2].Microseconds()), "p50-us")
			b.ReportMetric(float64(took[b.N*99/100].Microseconds()), "p99-us")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// durableEngine takes calls and delivers nothing.
func durableEngine(b *testing.B, srv *testkit.Redis, w wire.Confirm) *Engine {
	b.Helper()
	table, err := route.NewTable([]*route.Route{testRoute("r", "app1")})
	if err != nil {
		b.Fatal(err)
	}
	conn, err := wire.Open(wire.Address{URL: srv.URL()})
	if err != nil {
		b.Fatal(err)
	}
	e := New(Options{Conn: conn, Space: keys.Space{Namespace: "notifier", Shards: 1}, Routes: table, Confirm: w,
		Handler: &quick{}, Instance: "bench", Concurrency: 512, Grace: 50 * time.Millisecond,
		Retention: time.Hour, Retain: 100000, Drain: 10 * time.Second, Logger: zap.NewNop()})
	if err := e.Begin(b.Context()); err != nil {
		b.Fatal(fmt.Errorf("begin: %w", err))
	}
	b.Cleanup(func() {
		e.Close(context.Background())
		_ = conn.Close()
	})
	return e
}
