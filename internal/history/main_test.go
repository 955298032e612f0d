package history

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"notifier/internal/notice"
	"notifier/internal/store"
	"notifier/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// engines runs a test on both databases; in make test only on SQLite.
func engines(t *testing.T, f func(t *testing.T, url string)) {
	t.Helper()
	if withPostgres {
		t.Run("postgres", func(t *testing.T) { f(t, testkit.PostgresDatabase(t)) })
	}
	t.Run("sqlite", func(t *testing.T) { f(t, "sqlite://"+filepath.Join(t.TempDir(), "history.db")) })
}

func open(t *testing.T, o Options) *DB {
	t.Helper()
	d, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// noon is a time with room in its day on either side.
var noon = time.Date(2026, 11, 20, 12, 0, 0, 123_456_000, time.UTC)

// ended returns the i-th entry of a test: one per second, from noon on.
func ended(i int, change func(e *store.Entry)) store.Entry {
	e := store.Entry{Outcome: notice.EndDelivered, Number: 1, At: noon.Add(time.Duration(i) * time.Second), Host: "shop.example",
		Notice: &notice.Notice{Key: fmt.Sprintf("app%d:orders:paid:%d", i%2+1, i), Route: fmt.Sprintf("app%d", i%2+1), Made: notice.MadeAt(noon),
			Due: noon.Truncate(time.Millisecond), AttemptsMade: 1,
			Content: notice.Content{Body: []byte(fmt.Sprintf(`{"order":%d}`, i))},
			Attempts: []notice.Attempt{{Number: 1, At: noon.Truncate(time.Millisecond), Duration: 12345 * time.Microsecond, Status: 200,
				Response: "thanks"}}}}
	if change != nil {
		change(&e)
	}
	return e
}

func rowsOf(bodies Bodies, list ...store.Entry) []Row {
	rows := make([]Row, len(list))
	for i, e := range list {
		rows[i] = rowOf(e, bodies)
	}
	return rows
}

func write(t *testing.T, d *DB, rows []Row) Written {
	t.Helper()
	w, err := d.Write(t.Context(), rows)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// all returns the ids of all results of a query, read page by page.
func all(t *testing.T, d *DB, q Query) (list []string) {
	t.Helper()
	for {
		p, err := d.Find(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range p.Rows {
			list = append(list, fmt.Sprintf("%s/%d", r.Key[len("app1:orders:paid:"):], r.Number))
		}
		if q.Cursor = p.Cursor; q.Cursor == "" {
			return list
		}
		if len(p.Rows) > q.Limit {
			t.Fatalf("a page of %d rows", len(p.Rows))
		}
	}
}
