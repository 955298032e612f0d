package adapter

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"notifier/bench/peer"
)

// rivers is riverqueue/river.
type rivers struct {
	onPostgres
	client *river.Client[pgx.Tx] // of the producer
	worker *river.Client[pgx.Tx]
}

type riverArgs struct {
	ID   string `json:"id"`
	URL  string `json:"url,omitempty"`
	Body string `json:"body"`
}

// Kind names the job type.
func (riverArgs) Kind() string { return "notice" }

type riverWorker struct {
	river.WorkerDefaults[riverArgs]
	call peer.Call
	free chan struct{} // one for each call that may run
}

// Work handles one job.
func (w *riverWorker) Work(ctx context.Context, job *river.Job[riverArgs]) error {
	select {
	case w.free <- struct{}{}:
		defer func() { <-w.free }()
		return w.call(ctx, peer.Job{ID: job.Args.ID, URL: job.Args.URL, Body: []byte(job.Args.Body)})
	case <-ctx.Done():
		return ctx.Err()
	}
}

func riverEntry() peer.Entry {
	return peer.Entry{Info: peer.Info{
		Name: "river", Title: "River (PostgreSQL)", Version: moduleVersion("github.com/riverqueue/river"), Kind: peer.System,
		Needs: postgresNeeds(),
		Settings: "FetchCooldown and FetchPollInterval 10 ms, 8 workers for each handler asked for, at most 1,024 or those, which " +
			"share so many calls at once as the others have handlers; " + postgresSettings +
			"; delays under 5 s, which its leader serves late, are not asked of it; JobTimeout 10 s, RescueStuckJobsAfter 15 s (default 1 h)",
		Traits: peer.Traits{Crash: "nothing; rescued after 1 h by default", Race: "safe", Ladder: "a function a worker", Cancel: "by id"},
		Refused: "the worker returns an error; River repeats the job after 1 s, 16 s, 81 s and so on (its default policy), 24 times, " +
			"and then discards it",
		Quickstart: "river", Modules: []string{"github.com/riverqueue/river", "github.com/riverqueue/river/riverdriver/riverpgxv5",
			"github.com/jackc/pgx/v5"},
		Batch: 128, Lead: 8 * time.Second, BytesOf: bytesTable, CommandsOf: "transactions",
	}, New: func() peer.Peer { return &rivers{onPostgres: onPostgres{table: "river_job"}} }}
}

func (r *rivers) Start(ctx context.Context, env peer.Env) error {
	if err := r.onPostgres.Start(ctx, env); err != nil {
		return err
	}

	driver := riverpgxv5.New(r.db)
	if env.Attach == "" {
		m, err := rivermigrate.New(driver, &rivermigrate.Config{Logger: quiet()})
		if err != nil {
			return fmt.Errorf("make the migrator: %w", err)
		}
		if _, err := m.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
			return fmt.Errorf("migrate: %w", err)
		}
	}

	c, err := river.NewClient(driver, &river.Config{Logger: quiet()})
	if err != nil {
		return fmt.Errorf("make the client: %w", err)
	}

	r.client = c
	return nil
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func (r *rivers) Schedule(ctx context.Context, jobs ...peer.Job) (err error) {
	params := make([]river.InsertManyParams, len(jobs))
	for i, j := range jobs {
		params[i] = river.InsertManyParams{Args: riverArgs{ID: j.ID, URL: j.URL, Body: string(j.Body)},
			InsertOpts: &river.InsertOpts{ScheduledAt: j.Due}}
	}

	if len(jobs) == 1 {
		_, err = r.client.Insert(ctx, params[0].Args, params[0].InsertOpts)
	} else {
		_, err = r.client.InsertManyFast(ctx, params)
	}

	return err
}

// Work has more workers than calls at once where these are few: River asks for
// jobs once in 10 ms, and would else have less to do than it can.
func (r *rivers) Work(_ context.Context, handlers int, call peer.Call) error {
	workers := river.NewWorkers()
	river.AddWorker(workers, &riverWorker{call: call, free: make(chan struct{}, handlers)})
	c, err := river.NewClient(riverpgxv5.New(r.db), &river.Config{
		Logger: quiet(), Workers: workers, FetchCooldown: 10 * time.Millisecond, FetchPollInterval: 10 * time.Millisecond,
		Queues:     map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: max(handlers, min(8*handlers, 1024))}},
		JobTimeout: ourTimeout, RescueStuckJobsAfter: ourTimeout + 5*time.Second,
	})
	if err != nil {
		return fmt.Errorf("make the worker: %w", err)
	}
	// Not the caller's context, because its end would cancel the worker during a job.
	if err := c.Start(r.workers.ctx); err != nil {
		return fmt.Errorf("start the worker: %w", err)
	}

	r.worker = c
	return nil
}

func (r *rivers) Stop() error {
	if r.worker != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := r.worker.StopAndCancel(ctx); err != nil {
			slog.Warn("stop River's worker", "error", err)
		}
	}
	return r.onPostgres.Stop()
}
