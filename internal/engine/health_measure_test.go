//go:build measure

package engine

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"notifier/internal/receivers"
	"notifier/internal/route"
	"notifier/internal/store"
	"notifier/internal/testkit"
	"notifier/test/record"
)

// The load of TestMeasureHealth.
const (
	healthHosts   = 1000
	healthRate    = 1000 // attempts a second
	healthWaiting = 100_000
)

// TestMeasureHealth measures which share of a core Redis takes to keep the health of 1,000 receivers that all
// fail, at 1,000 attempts a second and with 100,000 pending notices, which are counted all the time. HEALTH_SECONDS
// is the length of each window. RECORD=1 writes docs/records/dashboards.txt.
//
//	go test -tags measure ./internal/engine -run TestMeasureHealth -v -timeout 10m
func TestMeasureHealth(t *testing.T) {
	srv := testkit.StartRedis(t)
	r := testRoute("shops", "app1:trans")
	r.Target = route.Target{Kind: route.KindNotice}
	w := start(t, srv, nil, nil, r)
	w.put(t, healthWaiting, func(i int) store.Request {
		q := store.Request{Key: fmt.Sprintf("app1:trans:t:%d", i), Delay: 2 * time.Hour}
		q.URL = "https://" + healthHost(i) + "/hook"
		return q
	})
	window := time.Duration(number(t, "HEALTH_SECONDS", 60)) * time.Second

	idle := redisShare(t, srv, window, func(time.Time) {})
	n := 0
	with := redisShare(t, srv, window, func(until time.Time) {
		for began := time.Now(); time.Now().Before(until); n++ {
			w.receivers.tracker.Observe(r.Prefix, healthHost(n), receivers.Attempt{At: time.Now(), Failed: true, Status: 500, Reason: "status_5xx",
				Took: 20 * time.Millisecond})
			time.Sleep(time.Until(began.Add(time.Duration(n) * time.Second / healthRate))) // sleep: the load
		}
	})
	list, err := w.receivers.read(t.Context())
	if err != nil || len(list[0].Receivers) != healthHosts || list[0].Counted.IsZero() {
		t.Fatalf("%d receivers, counted %s, %v", len(list[0].Receivers), list[0].Counted, err)
	}

	text := fmt.Sprintf("%s, %s, Redis %s, %s/%s, %d processors. %d hosts that all fail, %d attempts a second for %s, %d notices pending, "+
		"which are counted at 2,000 a second.\n\n| | goal | measured |\n|---|---|---|\n| share of a core that Redis takes (idle %.2f %%, with "+
		"them %.2f %%) | ≤ 1 %% | %.2f %% |\n", time.Now().UTC().Format(time.DateOnly), runtime.Version(),
		srv.Client().InfoMap(t.Context(), "server").Val()["Server"]["redis_version"], runtime.GOOS, runtime.GOARCH, runtime.NumCPU(),
		healthHosts, n/int(window/time.Second), window, healthWaiting, 100*idle, 100*with, 100*(with-idle))
	t.Log("\n" + text)
	if with-idle > 0.01 {
		t.Errorf("the health of %d hosts takes %.4f of a core of Redis, want at most 0.01", healthHosts, with-idle)
	}
	if os.Getenv("RECORD") == "" || t.Failed() {
		return
	}
	if err := record.Write(filepath.Join("..", "..", "docs", "records", "dashboards.txt"), "health", text); err != nil {
		t.Error(err)
	}
}

func healthHost(i int) string { return fmt.Sprintf("shop%d.example:8443", i%healthHosts) }

// redisShare is the share of a core that Redis takes during a window in which do runs.
func redisShare(t *testing.T, srv *testkit.Redis, window time.Duration, do func(until time.Time)) float64 {
	t.Helper()
	_, before := testkit.CPU(t, srv)
	from := time.Now()
	do(from.Add(window))
	time.Sleep(time.Until(from.Add(window))) // sleep: the span that is measured
	_, after := testkit.CPU(t, srv)
	return (after - before).Seconds() / time.Since(from).Seconds()
}
