package history

import (
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"notifier/internal/pgtest"
)

func TestTryLeavesNothing(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, url string) {
		d := open(t, Options{URL: url})
		if err := d.Try(t.Context()); err != nil { // before the first start
			t.Error(err)
		}
		if v, err := d.Version(t.Context()); err != nil || v != 0 {
			t.Errorf("version %d, %v", v, err)
		}
		write(t, d, rowsOf(BodiesKeep, ended(1, nil)))
		if err := d.Try(t.Context()); err != nil {
			t.Error(err)
		}
		if got := strings.Join(all(t, d, Query{Limit: 10}), " "); got != "1/1" {
			t.Errorf("rows: %s", got)
		}
		if d.sqlite {
			if left, err := filepath.Glob(filepath.Join(filepath.Dir(d.file), ".notifier-*")); err != nil || len(left) > 0 {
				t.Errorf("%v, %v", left, err)
			}
			return
		}
		days, err := d.partitions(t.Context())
		if err != nil || len(days) != 1 {
			t.Errorf("%v, %v", days, err)
		}
	})
}

// doctor said ok where serve could not write.
func TestTryFailsWithoutTheRightToWrite(t *testing.T) {
	t.Parallel()
	admin := pgtest.Database(t)
	a := open(t, Options{URL: admin})
	write(t, a, rowsOf(BodiesKeep, ended(1, nil)))
	u, err := url.Parse(admin)
	if err != nil {
		t.Fatal(err)
	}
	reader := strings.TrimPrefix(u.Path, "/") + "_looks"
	for _, sql := range []string{"CREATE ROLE " + reader + " LOGIN", "GRANT SELECT ON ALL TABLES IN SCHEMA public TO " + reader} {
		if _, err := a.db.Exec(sql); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { _, _ = a.db.Exec("DROP OWNED BY " + reader + " CASCADE; DROP ROLE " + reader) })

	u.User = url.User(reader)
	if err := open(t, Options{URL: u.String()}).Try(t.Context()); err == nil || !strings.Contains(err.Error(), "permission denied") {
		t.Errorf("%v", err)
	}

	missing := open(t, Options{URL: "sqlite:///nonexistent/history.db"})
	if err := missing.Try(t.Context()); err == nil || !strings.Contains(err.Error(), "cannot be created") {
		t.Errorf("%v", err)
	}
	broken := filepath.Join(t.TempDir(), "history.db")
	if err := os.WriteFile(broken, []byte("not a database, and long enough to be read as one"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := open(t, Options{URL: "sqlite://" + broken}).Try(t.Context()); err == nil {
		t.Error("takes a file that is no database")
	}
}
