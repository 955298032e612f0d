package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"notifier/internal/dispatch"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/store"
	"notifier/internal/testkit"
)

// punctual notes how late each notice comes.
type punctual struct {
	quick
	mu    sync.Mutex
	late  []time.Duration
	twice map[string]int
}

func (p *punctual) Handle(ctx context.Context, r *route.Route, n *notice.Notice) notice.Result {
	p.mu.Lock()
	p.late = append(p.late, time.Since(n.Due))
	p.twice[n.Key]++
	p.mu.Unlock()
	return p.quick.Handle(ctx, r, n)
}

// BenchmarkFleet delivers 1,000 due/s among 100,000 pending with 1, 2, 4 and 8 instances in this
// process. It measures the cost of a notice in Redis and the useless work of the instances.
func BenchmarkFleet(b *testing.B) {
	const pending, rate, n = 100_000, 1000, 5000
	for _, instances := range []int{1, 2, 4, 8} {
		b.Run(fmt.Sprint(instances), func(b *testing.B) {
			srv := testkit.StartRedis(b)
			p := &punctual{quick: quick{all: n, done: make(chan struct{})}, twice: map[string]int{}}
			var all []*Engine
			for range instances {
				all = append(all, benchEngine(b, srv, dispatch.Handler(p), 64, true))
			}
			for _, e := range all {
				testkit.Until(b, "all instances know each other", func() bool { return e.Fleet().View().Alive() == instances })
			}
			fill(b, all[0], 0, pending, func(int) time.Time { return time.Now().Add(time.Hour) })
			from := time.Now().Add(2 * time.Second)
			fill(b, all[0], pending, n, func(i int) time.Time { return from.Add(time.Duration(i) * time.Second / rate) })
			time.Sleep(time.Until(from)) // sleep: until the first is due
			mine, redis := testkit.CPU(b, srv)
			before, claims := calls(srv), vain(all)
			b.ResetTimer()
			select {
			case <-p.done:
			case <-time.After(time.Minute):
				b.Fatalf("%d of %d came", p.n.Load(), n)
			}
			b.StopTimer()
			m, r := testkit.CPU(b, srv)
			slices.Sort(p.late)
			b.ReportMetric(float64(calls(srv)-before)/n, "calls/notice")
			b.ReportMetric(float64((r-redis).Microseconds())/n, "redis-us/notice")
			b.ReportMetric(float64((m-mine).Microseconds())/n, "cpu-us/notice")
			b.ReportMetric((vain(all)-claims)/n, "vain/notice")
			b.ReportMetric(float64(p.late[len(p.late)/2].Microseconds())/1000, "p50-ms")
			b.ReportMetric(float64(p.late[len(p.late)*99/100].Microseconds())/1000, "p99-ms")
			b.ReportMetric(float64(len(p.late)-len(p.twice)), "doubles")
			b.ReportMetric(0, "ns/op")
		})
	}
}

func fill(b *testing.B, e *Engine, first, n int, due func(i int) time.Time) {
	b.Helper()
	for i := 0; i < n; i += 500 {
		reqs := make([]store.Request, min(500, n-i))
		for j := range reqs {
			reqs[j] = request(first+i+j, 0, due(i+j))
		}
		for _, r := range e.ScheduleMany(context.Background(), reqs) {
			if r.Err != nil {
				b.Fatal(r.Err)
			}
		}
	}
}

// vain is how many claims were lost or stale.
func vain(all []*Engine) (n float64) {
	for _, e := range all {
		for name, f := range samples(e) {
			if strings.HasPrefix(name, "notifier_claims_total{") && !strings.Contains(name, `"`+string(notice.ClaimWon)+`"`) {
				n += f
			}
		}
	}
	return n
}
