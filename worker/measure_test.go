//go:build measure

package worker

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"notifier/internal/engine"
	"notifier/internal/fleet"
	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/testkit"
	"notifier/internal/wire"
	"notifier/worker/internal/seam"
)

// claimed counts claims that won no notice: lost, because another instance was first, or stale, because it was settled.
type claimed struct {
	*fleet.Counters
	lost, stale *atomic.Int64
}

func (c claimed) Claim(_ notice.Source, r notice.ClaimResult, n int) {
	switch r {
	case notice.ClaimLost:
		c.lost.Add(int64(n))
	case notice.ClaimStale:
		c.stale.Add(int64(n))
	}
}

// TestMeasureWorkersBesideServices prints the lost claims a notice and the lateness of one worker, and of four workers beside
// four services, in this process on one Redis, at WORKERS_RATE notices a second (500). The goals are 0.05 lost
// claims, and 1.5 times the p99 of one.
func TestMeasureWorkersBesideServices(t *testing.T) {
	for _, n := range []int{1, 4, 1, 4} {
		t.Run(fmt.Sprint(n), func(t *testing.T) { measureWorkers(t, n) })
	}
}

func measureWorkers(t *testing.T, instances int) {
	const notices = 20_000
	rate := time.Duration(500)
	if text := os.Getenv("WORKERS_RATE"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}

		rate = time.Duration(n)
	}

	srv := testkit.StartRedis(t)
	var lost, stale atomic.Int64
	var mu sync.Mutex
	var late []time.Duration
	var last *Worker
	for i := range instances {
		if instances > 1 {
			measuredService(t, srv, i, &lost, &stale)
		}

		conn, err := wire.Open(wire.Address{URL: srv.URL()})
		if err != nil {
			t.Fatal(err)
		}

		o := Options{Namespace: srv.Namespace(), ShutdownTimeout: time.Second}
		seam.Set(&o, seam.Seam{Conn: conn, Now: time.Now, Change: func(o *engine.Options) {
			o.Metrics = claimed{fleet.NewCounters(o.Routes.All()), &lost, &stale}
		}})
		w, err := New(o)
		if err != nil {
			t.Fatal(err)
		}

		w.Handle(closing, func(_ context.Context, n *Notice) error {
			d := time.Since(n.Due)
			mu.Lock()
			defer mu.Unlock()
			late = append(late, d)
			return nil
		})
		start(t, w)
		last = w
	}

	time.Sleep(10 * time.Second) // sleep: every instance has announced its prefixes
	lost.Store(0)
	stale.Store(0)
	from := time.Now().Add(5 * time.Second)
	for i := 0; i < notices; i += 1000 {
		var list []Request
		for j := i; j < i+1000; j++ {
			list = append(list, Request{Key: fmt.Sprintf("%s:%d", closing, j), Delay: time.Until(from) + time.Duration(j)*time.Second/rate})
		}

		replies, err := last.ScheduleMany(t.Context(), list)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range replies {
			if r.Err != nil {
				t.Fatal(r.Err)
			}
		}
	}

	for {
		mu.Lock()
		n := len(late)
		mu.Unlock()
		if n >= notices {
			break
		}
		time.Sleep(100 * time.Millisecond) // sleep: the measurement runs
	}

	slices.Sort(late)
	t.Logf("%d workers, %d a second: %.4f lost and %.4f stale claims a notice; lateness p50 %s, p99 %s, max %s", instances, rate,
		float64(lost.Load())/notices, float64(stale.Load())/notices, late[notices/2], late[notices*99/100], late[len(late)-1])
}

// measuredService runs an instance of the service with a wider route.
func measuredService(t *testing.T, srv *testkit.Redis, i int, lost, stale *atomic.Int64) {
	t.Helper()
	table, err := route.NewTable([]*route.Route{{Name: "shop", Prefix: "shop", Target: route.Target{Kind: route.KindLog},
		Ladder: notice.DefaultLadder, Timeout: time.Second, Concurrency: 64}})
	if err != nil {
		t.Fatal(err)
	}

	conn, err := wire.Open(wire.Address{URL: srv.URL()})
	if err != nil {
		t.Fatal(err)
	}

	e := engine.New(engine.Options{Conn: conn, Space: keys.Space{Namespace: srv.Namespace()}, Routes: table, Handler: newHandled(),
		Instance: fmt.Sprint("service", i), Version: "v1", Concurrency: 512, Grace: grace, Retention: time.Hour, Retain: retain,
		ConfigureRedis: true, Takeover: takeover, Drain: time.Second,
		Metrics: claimed{fleet.NewCounters(table.All()), lost, stale}, Logger: zap.NewNop()})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}

		_ = conn.Close()
	})
	<-e.Subscribed()
}
