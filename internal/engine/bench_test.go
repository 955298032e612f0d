package engine

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"notifier/internal/dispatch"
	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/store"
	"notifier/internal/telemetry"
	"notifier/internal/testkit"
	"notifier/internal/wire"
)

// Rates on a shared machine say little: these benchmarks also report the CPU
// that this process and Redis spend on each notice, which repeats well.

// quick is a handler that does nothing.
type quick struct {
	n    atomic.Int64
	all  int64
	done chan struct{}
}

func (q *quick) Handle(context.Context, *route.Route, *notice.Notice) notice.Result {
	if q.n.Add(1) == q.all {
		close(q.done)
	}
	return notice.DeliveredResult(200)
}

func benchEngine(b *testing.B, srv *testkit.Redis, h dispatch.Handler, slots int, run bool) *Engine {
	b.Helper()
	r := testRoute("r", "app1")
	r.Concurrency, r.Timeout = slots, 10*time.Second
	return benchRoute(b, srv, h, r, run)
}

// benchEngineTo delivers to a fixed target, as many at a time.
func benchEngineTo(b *testing.B, srv *testkit.Redis, h dispatch.Handler, address string, slots int) *Engine {
	b.Helper()
	to, err := route.ParseTarget(address)
	if err != nil {
		b.Fatal(err)
	}
	r := testRoute("r", "app1")
	r.Concurrency, r.HostConcurrency, r.Timeout = slots, slots, 10*time.Second
	r.Target = to
	return benchRoute(b, srv, h, r, true)
}

func benchRoute(b *testing.B, srv *testkit.Redis, h dispatch.Handler, r *route.Route, run bool) *Engine {
	b.Helper()
	return benchKept(b, srv, h, r, keeping{run: run})
}

// keeping says whether an engine runs, over how many shards (zero = 1), and where it
// keeps what ends.
type keeping struct {
	run     bool
	shards  int
	history History
}

func benchKept(b *testing.B, srv *testkit.Redis, h dispatch.Handler, r *route.Route, k keeping) *Engine {
	b.Helper()
	table, err := route.NewTable([]*route.Route{r})
	if err != nil {
		b.Fatal(err)
	}
	conn, err := wire.Open(wire.Address{URL: srv.URL()})
	if err != nil {
		b.Fatal(err)
	}
	e := New(Options{Conn: conn, Space: keys.Space{Namespace: "notifier", Shards: max(k.shards, 1)}, Routes: table,
		Handler: h, Instance: "bench", Concurrency: 512, Grace: 50 * time.Millisecond,
		Retention: time.Hour, Retain: 100000, ConfigureRedis: true, Drain: 10 * time.Second, History: k.history,
		Metrics: telemetry.NewMetrics(telemetry.MetricsOptions{Routes: table.All()}), Logger: zap.NewNop()})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	if k.run {
		go func() {
			defer close(done)
			_ = e.Run(ctx)
		}()
		<-e.Subscribed()
	} else {
		if err := e.Begin(ctx); err != nil {
			b.Fatal(err)
		}
		close(done)
	}
	b.Cleanup(func() {
		cancel()
		<-done
		_ = conn.Close()
	})
	return e
}

func report(b *testing.B, srv *testkit.Redis, n int, took, mine, redis time.Duration) {
	b.Helper()
	m, r := testkit.CPU(b, srv)
	b.ReportMetric(float64(n)/took.Seconds(), "notices/s")
	b.ReportMetric(float64((m-mine).Nanoseconds())/float64(n), "cpu-ns/notice")
	b.ReportMetric(float64((r-redis).Nanoseconds())/float64(n), "redis-ns/notice")
	b.ReportMetric(float64(calls(srv))/float64(n), "calls/notice")
	b.ReportMetric(0, "ns/op")
}

// calls is how many commands Redis was sent: those inside scripts are not
// round trips.
func calls(srv *testkit.Redis) (n int64) {
	info := srv.Client().Info(context.Background(), "commandstats").Val()
	for line := range strings.Lines(info) {
		name, v, _ := strings.Cut(strings.TrimSpace(line), ":calls=")
		v, _, _ = strings.Cut(v, ",")
		if name == "cmdstat_evalsha" {
			x, _ := strconv.ParseInt(v, 10, 64)
			n += x
		}
	}
	return n
}

var benchBody = []byte(`{"order":"` + strings.Repeat("x", 188) + `"}`)

func request(i int, delay time.Duration, due time.Time) store.Request {
	return store.Request{Key: fmt.Sprintf("app1:trans:notice:%013d", i), Delay: delay, Due: due, Content: notice.Content{Body: benchBody}}
}

// BenchmarkSchedule is callers with one notice each, in process: with one shard, and
// with 64 of them on the same Redis.
func BenchmarkSchedule(b *testing.B) {
	for _, callers := range []int{64, 1024} {
		for _, shards := range []int{1, 64} {
			b.Run(fmt.Sprintf("%dCallers/%dShards", callers, shards), func(b *testing.B) { benchSchedule(b, callers, shards) })
		}
	}
}

func benchSchedule(b *testing.B, callers, shards int) {
	srv := testkit.StartRedis(b)
	benchCallers(b, srv, benchKept(b, srv, &quick{}, testRoute("r", "app1"), keeping{shards: shards}), callers)
}

// benchCallers has callers schedule b.N notices for tomorrow, one a call.
func benchCallers(b *testing.B, srv *testkit.Redis, e *Engine, callers int) {
	b.Helper()
	b.ReportAllocs()
	var next atomic.Int64
	var wg sync.WaitGroup
	mine, redis := testkit.CPU(b, srv)
	sent := reads(srv)
	from := time.Now()
	b.ResetTimer()
	for range callers {
		wg.Go(func() {
			for {
				i := int(next.Add(1))
				if i > b.N {
					return
				}
				if _, err := e.Schedule(context.Background(), request(i, 24*time.Hour, time.Time{})); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	took := time.Since(from)
	b.ReportMetric(float64(reads(srv)-sent)/float64(b.N), "reads/notice")
	report(b, srv, b.N, took, mine, redis)
}

// reads is how often Redis has read from a connection: at least once for each round
// trip.
func reads(srv *testkit.Redis) (n int64) {
	info := srv.Client().Info(context.Background(), "stats").Val()
	for line := range strings.Lines(info) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), "total_reads_processed:"); ok {
			n, _ = strconv.ParseInt(v, 10, 64)
		}
	}
	return n
}

// BenchmarkScheduleMany is batches of 128 from 8 callers.
func BenchmarkScheduleMany(b *testing.B) {
	srv := testkit.StartRedis(b)
	e := benchEngine(b, srv, &quick{}, 64, false)
	b.ReportAllocs()
	var next atomic.Int64
	var wg sync.WaitGroup
	mine, redis := testkit.CPU(b, srv)
	from := time.Now()
	b.ResetTimer()
	for range 8 {
		wg.Go(func() {
			for {
				i := int(next.Add(128)) - 128
				if i >= b.N {
					return
				}
				reqs := make([]store.Request, 128)
				for j := range reqs {
					reqs[j] = request(i+j, 24*time.Hour, time.Time{})
				}
				for _, r := range e.ScheduleMany(context.Background(), reqs) {
					if r.Err != nil {
						b.Error(r.Err)
						return
					}
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	report(b, srv, b.N, time.Since(from), mine, redis)
}

// BenchmarkDrain is notices that are due in one millisecond: from that instant
// until the last was handled.
func BenchmarkDrain(b *testing.B) {
	for _, slots := range []int{64, 512} {
		b.Run(fmt.Sprintf("%dSlots", slots), func(b *testing.B) {
			srv := testkit.StartRedis(b)
			n := max(b.N, 2000)
			q := &quick{all: int64(n), done: make(chan struct{})}
			e := benchEngine(b, srv, q, slots, true)
			drain(b, srv, e, n, q.done)
		})
	}
}

// drain schedules n notices for one millisecond, and measures from that instant
// until done is closed.
func drain(b *testing.B, srv *testkit.Redis, e *Engine, n int, done <-chan struct{}) (due time.Time) {
	b.Helper()
	due = time.Now().Add(time.Duration(n)*40*time.Microsecond + 500*time.Millisecond)
	for i := 0; i < n; i += 500 {
		reqs := make([]store.Request, min(500, n-i))
		for j := range reqs {
			reqs[j] = request(i+j, 0, due)
		}
		for _, r := range e.ScheduleMany(context.Background(), reqs) {
			if r.Err != nil {
				b.Fatal(r.Err)
			}
		}
	}
	b.ReportAllocs()
	mine, redis := testkit.CPU(b, srv)
	<-time.After(time.Until(due))
	b.ResetTimer()
	<-done
	took := time.Since(due)
	b.StopTimer()
	report(b, srv, n, took, mine, redis)
	return due
}
