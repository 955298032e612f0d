package adapter

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"notifier/bench/peer"
)

// polled is a table with an index by due time, polled each second.
type polled struct{ onPostgres }

func sqlPoll() peer.Entry {
	return peer.Entry{Info: peer.Info{
		Name: "sql-poll-1s", Title: "database table, polled each 1 s", Version: "pgx " + moduleVersion("github.com/jackc/pgx/v5"),
		Kind:     peer.Pattern,
		Settings: "one poller, UPDATE … WHERE due <= now() LIMIT 1000 FOR UPDATE SKIP LOCKED, index by due; " + postgresSettings,
		Needs:    postgresNeeds(), Batch: 128, BytesOf: bytesTable, CommandsOf: "transactions",
		Traits: peer.Traits{Crash: "marked jobs, not yet handled", Race: "safe with SKIP LOCKED", Ladder: "by hand",
			Cancel: "DELETE"},
	}, New: func() peer.Peer { return &polled{onPostgres{table: "notices"}} }}
}

func (p *polled) Start(ctx context.Context, env peer.Env) error {
	if err := p.onPostgres.Start(ctx, env); err != nil {
		return err
	}
	if env.Attach != "" {
		return nil
	}

	_, err := p.db.Exec(ctx,
		`CREATE TABLE notices (id text PRIMARY KEY, due timestamptz NOT NULL, body text NOT NULL, taken boolean NOT NULL DEFAULT false);
		CREATE INDEX notices_due ON notices (due) WHERE NOT taken`)
	if err != nil {
		return fmt.Errorf("make the table: %w", err)
	}

	return nil
}

func (p *polled) Schedule(ctx context.Context, jobs ...peer.Job) (err error) {
	if len(jobs) == 1 {
		_, err = p.db.Exec(ctx, `INSERT INTO notices (id, due, body) VALUES ($1, $2, $3)`, jobs[0].ID, jobs[0].Due, string(jobs[0].Body))
		return err
	}

	_, err = p.db.CopyFrom(ctx, pgx.Identifier{"notices"}, []string{"id", "due", "body"},
		pgx.CopyFromSlice(len(jobs), func(i int) ([]any, error) { return []any{jobs[i].ID, jobs[i].Due, string(jobs[i].Body)}, nil }))
	return err
}

func (p *polled) Work(_ context.Context, handlers int, call peer.Call) error {
	jobs := p.workers.pool(handlers, call)
	p.workers.poll(time.Second, func(ctx context.Context) (int, error) { return p.take(ctx, jobs) })
	return nil
}

func (p *polled) take(ctx context.Context, jobs chan<- string) (int, error) {
	rows, err := p.db.Query(ctx, `UPDATE notices SET taken = true WHERE id IN (
		SELECT id FROM notices WHERE NOT taken AND due <= now() ORDER BY due LIMIT $1 FOR UPDATE SKIP LOCKED) RETURNING id,
			body`, page)
	if err != nil {
		return 0, fmt.Errorf("take the due: %w", err)
	}

	type row struct{ ID, Body string }
	due, err := pgx.CollectRows(rows, pgx.RowToStructByPos[row])
	if err != nil {
		return 0, fmt.Errorf("take the due: %w", err)
	}

	for _, r := range due {
		if err := send(ctx, jobs, r.ID); err != nil {
			return 0, err
		}
	}

	return len(due), nil
}
