package pghistory

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"io/fs"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"notifier/internal/history"
)

//go:embed migrations
var migrations embed.FS

func init() {
	history.Register(history.Driver{Parse: parse, Schema: newSchema, Fault: fault}, "postgres", "postgresql")
}

func parse(address string) (open func() (*sql.DB, error), file string, err error) {
	c, err := pgx.ParseConfig(address)
	if err != nil { // it may contain the password
		return nil, "", errors.New("not an address of PostgreSQL; want postgres://user:password@host:5432/database")
	}

	c.ConnectTimeout = history.DialTimeout
	if c.RuntimeParams["application_name"] == "" {
		c.RuntimeParams["application_name"] = "notifier"
	}

	c.RuntimeParams["timezone"] = "UTC"
	return func() (*sql.DB, error) { return stdlib.OpenDB(*c), nil }, "", nil
}

type schema struct{ *goose.Provider }

// Upgrade applies the migrations that are missing. A lock of the server lets one process at a time do so.
func (s schema) Upgrade(ctx context.Context) error {
	_, err := s.Up(ctx)
	return err
}

func newSchema(db *sql.DB) (history.Schema, error) {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return nil, err
	}

	locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, 240), lock.WithUnlockTimeout(1, 5))
	if err != nil {
		return nil, err
	}

	p, err := goose.NewProvider(goose.DialectPostgres, db, files, goose.WithSessionLocker(locker), goose.WithTableName("history_schema"),
		goose.WithDisableGlobalRegistry(true))
	return schema{p}, err
}

// fault classifies errors by their SQLSTATE.
func fault(err error) history.Fault {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return history.Unreachable
	}

	switch pg.Code[:min(2, len(pg.Code))] {
	case "08", "53", "57", "58": // connection, resources (disk full), operator, system
		return history.Unreachable
	case "22", "54": // data exception; a limit of the program
		return history.Content
	}

	if pg.Code == "55P03" { // lock_not_available
		return history.Locked
	}

	return history.Refused
}
