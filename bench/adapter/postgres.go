package adapter

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"notifier/bench/peer"
	"notifier/bench/server"
)

// onPostgres is the common part of peers on PostgreSQL.
type onPostgres struct {
	served
	table string
	db    *pgxpool.Pool
}

const postgresSettings = "synchronous_commit off, shared_buffers 1 GB"

func postgresNeeds() []peer.Need {
	return []peer.Need{{Program: "postgres", Paths: server.PostgresPaths, Package: "postgresql"}}
}

func (p *onPostgres) Start(ctx context.Context, env peer.Env) error {
	err := p.open(env, func() (*server.Process, error) {
		return server.Postgres(ctx, env.Dir, "synchronous_commit=off", "shared_buffers=1GB", "max_connections=300", "max_wal_size=4GB")
	})
	if err != nil {
		return err
	}

	conf, err := pgxpool.ParseConfig(p.addr)
	if err != nil {
		return fmt.Errorf("read the address of PostgreSQL: %w", err)
	}

	conf.MaxConns = 48
	if p.db, err = pgxpool.NewWithConfig(ctx, conf); err != nil {
		return fmt.Errorf("connect to PostgreSQL: %w", err)
	}

	return nil
}

func (p *onPostgres) Usage(ctx context.Context) (peer.Usage, error) {
	u := peer.Usage{Trips: -1, PIDs: p.pids()}
	err := p.db.QueryRow(ctx,
		`SELECT pg_total_relation_size($1::regclass), xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()`,
		p.table).Scan(&u.Bytes, &u.Commands)
	if err != nil {
		return u, fmt.Errorf("ask PostgreSQL for its usage: %w", err)
	}

	return u, nil
}

func (p *onPostgres) Stop() error {
	p.workers.stop()
	if p.db != nil {
		p.db.Close()
	}

	return p.srv.Stop()
}
