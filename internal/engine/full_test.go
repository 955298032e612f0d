package engine

import (
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	logged "go.uber.org/zap/zaptest/observer"

	"notifier/internal/fleet"
	"notifier/internal/store"
	"notifier/internal/telemetry"
	"notifier/internal/testkit"
	"notifier/internal/wire"
)

// Regression test: calls were refused for a minute without a line, a gauge or a reason in /readyz. One refused write is
// reported by its instance and in its heartbeat; without more calls a probe keeps the report up until Redis has memory again.
func TestFullRedisIsReported(t *testing.T) {
	t.Parallel()
	srv := testkit.StartRedis(t, testkit.WithConfig("maxmemory-policy noeviction"))
	core, logs := logged.New(zap.InfoLevel)
	m := telemetry.NewMetrics(telemetry.MetricsOptions{})
	w := start(t, srv, newSink(1), func(o *Options) { o.Logger, o.Metrics = zap.New(core), m }, testRoute("r", "app1"))
	other := start(t, srv, newSink(1), nil, testRoute("r", "app1"))
	tell := func(maxmemory string) {
		t.Helper()
		if err := srv.Client().ConfigSet(t.Context(), "maxmemory", maxmemory).Err(); err != nil {
			t.Fatal(err)
		}
	}
	gauge := func() string {
		page := httptest.NewRecorder()
		m.Page().ServeHTTP(page, httptest.NewRequest("GET", "/metrics", nil))
		_, rest, _ := strings.Cut(page.Body.String(), "\nnotifier_redis_full ")
		value, _, _ := strings.Cut(rest, "\n")
		return value
	}
	if got := gauge(); got != "0" {
		t.Errorf("the gauge is %q before", got)
	}

	tell("1mb")
	if _, err := w.Schedule(t.Context(), store.Request{Key: key(1), Delay: time.Hour}); !errors.Is(err, wire.ErrFull) {
		t.Fatalf("%v, want wire.ErrFull", err)
	}
	r := w.Ready(t.Context())
	if !r.Ready || len(r.Degraded) != 1 || !r.Degraded[0].Full || !r.Degraded[0].Urgent ||
		!strings.HasPrefix(r.Degraded[0].Reason, "Redis is full (maxmemory): new notices are refused since ") {
		t.Errorf("%+v", r)
	}
	const line = "Redis is full: new notices are refused, stored ones are delivered"
	if n := logs.FilterMessage(line).FilterLevelExact(zap.ErrorLevel).Len(); n != 1 || gauge() != "1" {
		t.Errorf("%d lines, the gauge is %s", n, gauge())
	}
	since := time.Now()
	eventually(t, "the other instance reads it in the heartbeat", func() bool {
		list, err := other.Instances(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range list {
			if f, _ := x.ReadFigures(); x.ID == w.Self() && f.Full == r.Degraded[0].Reason {
				return true
			}
		}
		return false
	})
	if took := time.Since(since); took > 2*time.Second {
		t.Errorf("read after %s", took)
	}

	last := func() time.Time {
		w.full.mu.Lock()
		defer w.full.mu.Unlock()
		return w.full.last
	}
	first := last()
	eventually(t, "two refused probes", func() bool { return last().Sub(first) > 1500*time.Millisecond })
	tell("0")
	eventually(t, "the end, 10 s later", func() bool { return !w.full.condition().Full })
	if since := time.Since(last()); since < fullLasts {
		t.Errorf("the end came %s after the last refused write", since)
	}
	if n := logs.FilterMessage("Redis is no longer full, it has refused no write for 10s").Len(); n != 1 || gauge() != "0" ||
		logs.FilterMessage(line).Len() != 1 {
		t.Errorf("%d lines of the end, the gauge is %s", n, gauge())
	}
}

// Near maxmemory Redis accepts some writes and refuses others: that is one report.
func TestFullRedisDoesNotFlap(t *testing.T) {
	t.Parallel()
	core, logs := logged.New(zap.InfoLevel)
	now := time.Unix(1e9, 0)
	e := &Engine{o: Options{Logger: zap.New(core), Metrics: &fleet.Counters{}}, failed: make(chan struct{}, 1)}
	f := &full{engine: e, now: func() time.Time { return now }}
	for range 20 {
		f.refused("", wire.ErrFull)
		now = now.Add(fullLasts - time.Millisecond)
		if !f.check() {
			t.Fatal("ended early")
		}
	}
	if f.refused("10.0.0.1:6379", wire.ErrFull); !strings.HasPrefix(f.condition().Reason, "redis node 10.0.0.1:6379 is full") {
		t.Error(f.condition())
	}
	now = now.Add(fullLasts)
	if f.check() || logs.Len() != 2 {
		t.Errorf("%v", logs.All())
	}
}
