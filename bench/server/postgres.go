package server

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/jackc/pgx/v5"
)

// PostgresPaths is where Debian keeps initdb and postgres.
var PostgresPaths = []string{"/usr/lib/postgresql/*/bin/postgres"}

// Postgres starts a PostgreSQL server with the given settings ("a=b"). Its Addr
// is a connection URL.
func Postgres(ctx context.Context, dir string, settings ...string) (*Process, error) {
	path, addr, err := found("postgres", PostgresPaths...)
	if err != nil {
		return nil, err
	}
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return nil, fmt.Errorf("find initdb beside postgres: %w", err)
	}

	data := filepath.Join(dir, "pg")
	if err := os.MkdirAll(data, 0o700); err != nil {
		return nil, fmt.Errorf("make the data directory: %w", err)
	}

	initdb := exec.CommandContext(ctx, filepath.Join(filepath.Dir(path), "initdb"), "-D", data, "-U", "bench", "-A", "trust", "-N",
		"-E", "UTF8", "--locale", "C")
	initdb.Dir = data
	const pgUser = "postgres" // the Debian package makes it
	if os.Getuid() == 0 {
		cred, err := credential(pgUser)
		if err != nil {
			return nil, err
		}

		initdb.SysProcAttr = &syscall.SysProcAttr{Credential: cred}
		if err := os.Chown(data, int(cred.Uid), int(cred.Gid)); err != nil {
			return nil, fmt.Errorf("hand over the data directory: %w", err)
		}
		// The scratch directory must let that user through.
		if err := os.Chmod(dir, 0o711); err != nil {
			return nil, fmt.Errorf("open the scratch directory: %w", err)
		}
	}

	if out, err := initdb.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w: %s", err, out)
	}

	args := []string{"-D", data, "-p", port(addr), "-k", "", "-c", "listen_addresses=127.0.0.1"}
	for _, s := range settings {
		args = append(args, "-c", s)
	}

	url := "postgres://bench@" + addr + "/postgres?sslmode=disable"
	// SIGINT ends it without waiting for its clients.
	return launch(ctx, Command{Name: "postgres", Path: path, Args: args, Dir: dir, User: pgUser, Addr: url, Signal: syscall.SIGINT,
		Ready: func(ctx context.Context) error {
			conn, err := pgx.Connect(ctx, url)
			if err != nil {
				return err
			}

			return conn.Close(ctx)
		}})
}
