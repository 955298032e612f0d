package adapter

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"notifier/bench/peer"
	"notifier/bench/server"
)

// onPostgres is what both peers on PostgreSQL share.
type onPostgres struct {
	srv     *server.Process
	addr    string
	table   string
	db      *pgxpool.Pool
	workers *workers
}

const postgresSettings = "synchronous_commit off, shared_buffers 1 GB"

func postgresNeeds() []peer.Need {
	return []peer.Need{{Program: "postgres", Paths: server.PostgresPaths, Package: "postgresql"}}
}

func (p *onPostgres) start(ctx context.Context, env peer.Env) error {
	p.addr = env.Attach
	if p.addr == "" {
		srv, err := server.Postgres(ctx, env.Dir, "synchronous_commit=off", "shared_buffers=1GB", "max_connections=300",
			"max_wal_size=4GB")
		if err != nil {
			return err
		}

		p.srv, p.addr = srv, srv.Addr
	}

	conf, err := pgxpool.ParseConfig(p.addr)
	if err != nil {
		return fmt.Errorf("read the address of PostgreSQL: %w", err)
	}

	conf.MaxConns = 48
	if p.db, err = pgxpool.NewWithConfig(ctx, conf); err != nil {
		return fmt.Errorf("connect to PostgreSQL: %w", err)
	}

	p.workers = newWorkers()
	return nil
}

func (p *onPostgres) Addr() string { return p.addr }

func (p *onPostgres) Usage(ctx context.Context) (peer.Usage, error) {
	u := peer.Usage{Trips: -1}
	err := p.db.QueryRow(ctx,
		`SELECT pg_total_relation_size($1::regclass), xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()`,
		p.table).Scan(&u.Bytes, &u.Commands)
	if err != nil {
		return u, fmt.Errorf("ask PostgreSQL for its usage: %w", err)
	}

	if p.srv != nil {
		u.PIDs = []int{p.srv.PID()}
	}

	return u, nil
}

func (p *onPostgres) Stop() error {
	p.workers.stop()
	if p.db != nil {
		p.db.Close()
	}

	return p.srv.StopFast()
}
