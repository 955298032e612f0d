package engine

import (
	"context"
	"fmt"
	"testing"
	"time"

	"notifier/internal/dispatch"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/store"
	"notifier/internal/testkit"
)

// orders are the two kinds of routes that BenchmarkOrder compares.
var orders = []struct {
	name  string
	order route.Order
}{{"unordered", route.OrderNone}, {"ordered", route.OrderSkip}}

// benchOrder returns an engine for one route.
func benchOrder(b *testing.B, srv *testkit.Redis, h dispatch.Handler, o route.Order, run bool) *Engine {
	b.Helper()
	r := testRoute("r", "app1")
	r.Order, r.Concurrency, r.Timeout = o, 512, 10*time.Second
	return benchRoute(b, srv, h, r, run)
}

// BenchmarkOrderSchedule is 64 callers with one notice each, on an unordered and an ordered route. Each notice is
// alone in its sequence.
func BenchmarkOrderSchedule(b *testing.B) {
	for _, o := range orders {
		b.Run(o.name, func(b *testing.B) {
			srv := testkit.StartRedis(b)
			benchCallers(b, srv, benchOrder(b, srv, &quick{}, o.order, false), 64)
		})
	}
}

// BenchmarkOrderDrain is BenchmarkDrain on an unordered and an ordered route. Each notice is alone in its
// sequence.
func BenchmarkOrderDrain(b *testing.B) {
	for _, o := range orders {
		b.Run(o.name, func(b *testing.B) {
			srv := testkit.StartRedis(b)
			n := max(b.N, 2000)
			q := &quick{all: int64(n), done: make(chan struct{})}
			drain(b, srv, benchOrder(b, srv, q, o.order, true), n, q.done)
		})
	}
}

// slow is a handler that takes 1 ms, as a near receiver does.
type slow struct{ quick }

func (s *slow) Handle(ctx context.Context, r *route.Route, n *notice.Notice) notice.Result {
	time.Sleep(time.Millisecond) // sleep: the receiver's time
	return s.quick.Handle(ctx, r, n)
}

// BenchmarkOrderSequence is one sequence of b.N notices that are due at once, at a receiver that takes 1 ms.
func BenchmarkOrderSequence(b *testing.B) {
	srv := testkit.StartRedis(b)
	s := &slow{quick{all: int64(b.N), done: make(chan struct{})}}
	e := benchOrder(b, srv, s, route.OrderSkip, true)
	due := time.Now().Add(time.Duration(b.N)*100*time.Microsecond + 500*time.Millisecond)
	for i := 0; i < b.N; i += 500 {
		reqs := make([]store.Request, min(500, b.N-i))
		for j := range reqs {
			reqs[j] = request(0, 0, due)
			reqs[j].Key = fmt.Sprintf("app1:trans:notice:one~%d", i+j)
		}
		for _, r := range e.ScheduleMany(context.Background(), reqs) {
			if r.Err != nil {
				b.Fatal(r.Err)
			}
		}
	}
	mine, redis := testkit.CPU(b, srv)
	<-time.After(time.Until(due))
	b.ResetTimer()
	<-s.done
	b.StopTimer()
	report(b, srv, b.N, time.Since(due), mine, redis)
}
