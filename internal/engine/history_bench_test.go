package engine

import (
	"context"
	"testing"
	"time"

	"notifier/internal/history"
	"notifier/internal/testkit"
	_ "notifier/worker/pghistory"
)

// BenchmarkDrainKept is BenchmarkDrain with and without a history in PostgreSQL
// on the same machine, until the last notice is settled; rows/s is how fast the
// history was filled afterwards, from the drain's end to the last row.
func BenchmarkDrainKept(b *testing.B) {
	for _, kept := range []bool{false, true} {
		b.Run(map[bool]string{false: "off", true: "on"}[kept], func(b *testing.B) {
			srv := testkit.StartRedis(b)
			n := max(b.N, 2000)
			q := &quick{all: int64(n), done: make(chan struct{})}
			k := keeping{run: true}
			if kept {
				d, err := history.Open(history.Options{URL: testkit.StartPostgres(b).Database()})
				if err != nil {
					b.Fatal(err)
				}
				b.Cleanup(func() { _ = d.Close() })
				if err := d.Begin(context.Background()); err != nil {
					b.Fatal(err)
				}
				k.history = History{DB: d, Backlog: 10_000_000}
			}
			r := testRoute("r", "app1")
			r.Concurrency, r.Timeout = 512, 10*time.Second
			e := benchKept(b, srv, q, r, k)
			settled := make(chan struct{})
			go func() {
				defer close(settled)
				<-q.done
				for srv.Client().ZCard(context.Background(), "notifier:{0}:settled:app1").Val() < int64(n) {
					time.Sleep(time.Millisecond) // sleep: a poll's step
				}
			}()
			took := time.Since(drain(b, srv, e, n, settled))
			b.ReportMetric(float64(n)/took.Seconds(), "settled/s")
			if !kept {
				return
			}
			left := srv.Client().LLen(context.Background(), "notifier:{0}:ended").Val()
			from := time.Now()
			for srv.Client().LLen(context.Background(), "notifier:{0}:ended").Val() > 0 {
				time.Sleep(5 * time.Millisecond) // sleep: a poll's step
			}
			b.ReportMetric(float64(left)/time.Since(from).Seconds(), "rows/s")
		})
	}
}
