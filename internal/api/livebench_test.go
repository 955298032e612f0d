package api_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"notifier/internal/api"
	"notifier/internal/engine"
	"notifier/internal/keys"
	"notifier/internal/telemetry"
	"notifier/internal/testkit"
	"notifier/internal/wire"
)

// BenchmarkLiveBatch is schedule over HTTP in batches of 500 by 8 callers, with
// a real Redis; one operation is one notice.
func BenchmarkLiveBatch(b *testing.B) {
	srv, table := testkit.SharedRedis(b), routes(b)
	conn, err := wire.Open(wire.Address{URL: srv.URL()})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	engine := engine.New(engine.Options{Conn: conn, Space: keys.Space{Namespace: srv.Namespace(), Shards: 1}, Routes: table,
		Handler: nil, Metrics: telemetry.NewMetrics(telemetry.MetricsOptions{Routes: table.All()}),
		Grace:     50 * time.Millisecond,
		Retention: time.Hour, Retain: 1000, Concurrency: 1, Logger: zap.NewNop()})
	if err := engine.Begin(b.Context()); err != nil {
		b.Fatal(err)
	}
	s := httptest.NewServer(api.New(api.Options{Engine: engine, Routes: table, Loopback: true}))
	defer s.Close()
	const per, callers = 500, 8
	calls := (b.N + per - 1) / per
	bodies := make([][]byte, calls)
	for i := range bodies {
		var buf bytes.Buffer
		for j := range per {
			buf.WriteString(line(i*per + j))
		}
		bodies[i] = buf.Bytes()
	}
	b.ResetTimer()
	var wg sync.WaitGroup
	for w := range callers {
		wg.Go(func() {
			for i := w; i < calls; i += callers {
				res, err := http.Post(s.URL+"/v1/notices/batch", "application/x-ndjson", bytes.NewReader(bodies[i]))
				if err != nil {
					b.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, res.Body)
				_ = res.Body.Close()
				if res.StatusCode != 201 {
					b.Error(fmt.Errorf("status %d", res.StatusCode))
					return
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(calls*per)/b.Elapsed().Seconds(), "notices/s")
	http.DefaultClient.CloseIdleConnections()
}
