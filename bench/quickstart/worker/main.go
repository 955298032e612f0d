// Command worker is the smallest program that schedules and handles a job with package worker.
package main

import (
	"context"
	"log"
	"os/signal"
	"syscall"
	"time"

	"notifier/worker"
)

type order struct{ ID string }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	w, err := worker.New(worker.Options{Redis: "redis://127.0.0.1:6379/0"})
	if err != nil {
		log.Fatal(err)
	}

	worker.HandleJSON(w, "shop:orders:close", func(_ context.Context, _ *worker.Notice, o order) error {
		log.Println("closing", o.ID)
		return nil
	})
	_, err = w.Schedule(ctx, worker.Request{Key: "shop:orders:close:4711", Delay: 2 * time.Second, JSON: order{"4711"}})
	if err != nil {
		log.Fatal(err)
	}

	if err := w.Run(ctx); err != nil {
		log.Fatal(err)
	}
}
