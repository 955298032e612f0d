//go:build !quick

package testkit

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5"
)

func ask(t *testing.T, url, sql string) (n int) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(t.Context()) }()
	if err := c.QueryRow(t.Context(), sql).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestServerRestarts(t *testing.T) {
	s := StartPostgres(t)
	url := s.Database()
	if n := ask(t, url, "WITH x AS (SELECT 1) SELECT count(*) FROM x"); n != 1 {
		t.Fatal(n)
	}
	for _, end := range []func(){s.Stop, s.Kill} {
		end()
		if c, err := pgx.Connect(t.Context(), url); err == nil {
			_ = c.Close(t.Context())
			t.Fatal("it answers")
		}
		s.Again()
		if n := ask(t, url, "SELECT 2"); n != 2 {
			t.Fatal(n)
		}
	}
	if _, err := os.Stat(filepath.Join(s.Dir(), "PG_VERSION")); err != nil {
		t.Error(err)
	}
}

func TestDatabasesAreSeparate(t *testing.T) {
	a, b := PostgresDatabase(t), PostgresDatabase(t)
	if a == b {
		t.Fatal(a)
	}
	const tables = "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"
	ask(t, a, "SELECT 1")
	if n := ask(t, b, tables); n != 0 {
		t.Errorf("%d tables", n)
	}
}
