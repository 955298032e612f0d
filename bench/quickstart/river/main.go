// Command river is the smallest program that schedules and handles a job with River, in a database that river
// migrate-up has prepared.
package main

import (
	"context"
	"log"
	"os/signal"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
)

type order struct{ ID string }

// Kind names the job type.
func (order) Kind() string { return "orders_close" }

type closer struct{ river.WorkerDefaults[order] }

// Work handles one job.
func (*closer) Work(_ context.Context, j *river.Job[order]) error {
	log.Println("closing", j.Args.ID)
	return nil
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	pool, err := pgxpool.New(ctx, "postgres://127.0.0.1/postgres")
	if err != nil {
		log.Fatal(err)
	}

	workers := river.NewWorkers()
	river.AddWorker(workers, &closer{})
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{Workers: workers,
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 64}}})
	if err != nil {
		log.Fatal(err)
	}

	_, err = client.Insert(ctx, order{"4711"}, &river.InsertOpts{ScheduledAt: time.Now().Add(2 * time.Second)})
	if err != nil {
		log.Fatal(err)
	}

	if err := client.Start(ctx); err != nil {
		log.Fatal(err)
	}

	<-client.Stopped()
}
