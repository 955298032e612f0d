package worker_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"notifier/internal/embedded"
	"notifier/worker"
)

// redis runs a Redis for an example. A program has its own, whose address is often in NOTIFIER_REDIS_URL.
func redis() (address string, stop func()) {
	s, err := embedded.Start(context.Background())
	if err != nil {
		panic(err)
	}
	return s.URL, s.Close
}

// check ends an example.
func check(err error) {
	if err != nil {
		panic(err)
	}
}

// run runs a worker until done is closed.
func run(w *worker.Worker, done <-chan struct{}) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	go func() {
		select {
		case <-done:
			cancel()
		case <-ctx.Done():
		}
	}()
	check(w.Run(ctx))
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		panic("the handlers were not called")
	}
}

type Order struct{ ID string }

// Close an order that is not paid in time. If it is paid, the notice is cancelled.
func Example_closeUnpaidOrders() {
	address, stop := redis()
	defer stop()
	w, err := worker.New(worker.Options{Redis: address})
	check(err)
	done := make(chan struct{})
	worker.HandleJSON(w, "shop:orders:close", func(_ context.Context, n *worker.Notice, o Order) error {
		fmt.Println("close", o.ID, "in attempt", n.Attempt, "of", n.MaxAttempts)
		close(done)
		return nil
	}, worker.Retry(15*time.Second, 3*time.Minute), worker.Timeout(time.Minute))

	ctx := context.Background()
	for _, o := range []Order{{"4711"}, {"4712"}} {
		_, err := w.Schedule(ctx, worker.Request{Key: "shop:orders:close:" + o.ID, Delay: 300 * time.Millisecond, JSON: o})
		check(err)
	}
	paid, err := w.Cancel(ctx, "shop:orders:close:4711")
	check(err)
	fmt.Println("4711 is paid, its notice is", paid.State)
	run(w, done)
	// Output:
	// 4711 is paid, its notice is cancelled
	// close 4712 in attempt 1 of 3
}

// Ask a payment provider whether a refund has arrived, less often each time.
func Example_pollRefunds() {
	address, stop := redis()
	defer stop()
	w, err := worker.New(worker.Options{Redis: address})
	check(err)
	status := []string{"pending", "pending", "arrived"} // what the provider answers
	done := make(chan struct{})
	w.Handle("shop:refunds:poll", func(_ context.Context, n *worker.Notice) error {
		switch s := status[n.Attempt-1]; s {
		case "pending":
			return errors.New("still pending") // asked again after the next delay
		case "refused":
			return worker.Dead(errors.New("the provider has refused it"))
		default:
			fmt.Println(n.Key, s, "after", n.Attempt-1, "retries")
			close(done)
			return nil
		}
	}, worker.Retry(10*time.Millisecond, 20*time.Millisecond, time.Hour))

	_, err = w.Schedule(context.Background(), worker.Request{Key: "shop:refunds:poll:R1"})
	check(err)
	run(w, done)
	// Output: shop:refunds:poll:R1 arrived after 2 retries
}

// Come back later if another process has the order's lock. A deferral uses no attempt.
func Example_lockConflict() {
	address, stop := redis()
	defer stop()
	w, err := worker.New(worker.Options{Redis: address})
	check(err)
	var order sync.Mutex // in a program, a lock of a database
	order.Lock()
	done := make(chan struct{})
	w.Handle("shop:orders:ship", func(_ context.Context, n *worker.Notice) error {
		if !order.TryLock() {
			fmt.Println("locked in attempt", n.Attempt)
			order.Unlock() // the other process is ready
			return worker.Defer(20 * time.Millisecond)
		}
		defer order.Unlock()
		fmt.Println("shipped in attempt", n.Attempt)
		close(done)
		return nil
	})

	_, err = w.Schedule(context.Background(), worker.Request{Key: "shop:orders:ship:4711"})
	check(err)
	run(w, done)
	// Output:
	// locked in attempt 1
	// shipped in attempt 1
}

// Handle the notices of one business id one after another, in the order of their due times, also while an earlier one
// is retried. The id of a key may end with ~ and a number.
func ExampleOrder() {
	address, stop := redis()
	defer stop()
	w, err := worker.New(worker.Options{Redis: address})
	check(err)
	done := make(chan struct{})
	w.Handle("shop:orders", func(_ context.Context, n *worker.Notice) error {
		fmt.Println(n.Key, "attempt", n.Attempt)
		switch {
		case n.Key == "shop:orders:paid:O1" && n.Attempt == 1:
			return errors.New("the ledger is not available")
		case n.Key == "shop:orders:shipped:O1":
			close(done)
		}
		return nil
	}, worker.Order(), worker.Retry(50*time.Millisecond))

	now := time.Now()
	replies, err := w.ScheduleMany(context.Background(), []worker.Request{
		{Key: "shop:orders:created:O1", Due: now},
		{Key: "shop:orders:paid:O1", Due: now.Add(time.Millisecond)},
		{Key: "shop:orders:shipped:O1", Due: now.Add(2 * time.Millisecond)},
	})
	check(err)
	for _, r := range replies {
		check(r.Err)
	}
	run(w, done)
	// Output:
	// shop:orders:created:O1 attempt 1
	// shop:orders:paid:O1 attempt 1
	// shop:orders:paid:O1 attempt 2
	// shop:orders:shipped:O1 attempt 1
}

// A middleware wraps all handlers, for example to log what they return.
func ExampleWorker_Use() {
	address, stop := redis()
	defer stop()
	w, err := worker.New(worker.Options{Redis: address})
	check(err)
	w.Use(func(next worker.Handler) worker.Handler {
		return func(ctx context.Context, n *worker.Notice) error {
			err := next(ctx, n)
			fmt.Println(n.Key, "returned", err)
			return err
		}
	})
	done := make(chan struct{})
	w.Handle("shop:orders:close", func(context.Context, *worker.Notice) error {
		defer close(done)
		return nil
	})

	_, err = w.Schedule(context.Background(), worker.Request{Key: "shop:orders:close:4711"})
	check(err)
	run(w, done)
	// Output: shop:orders:close:4711 returned <nil>
}
