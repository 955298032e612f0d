//go:build fault

package acceptance

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"notifier/internal/testkit"
)

// PostgreSQL ends, by kill and by an administrator, while instances are killed and
// notices end: each ending has its row all the same.
func TestHistoryHasOneRowPerOutcomeAfterDatabaseFaults(t *testing.T) {
	for name, end := range map[string]func(*testkit.Postgres){"killed": (*testkit.Postgres).Kill, "stopped": (*testkit.Postgres).Stop} {
		t.Run(name, func(t *testing.T) {
			pg := testkit.StartPostgres(t)
			historyKeepsAll(t, 1500, 3, pg.Database(), func(db *database, more func()) {
				end(pg)
				more()
				await(t, waitTimeout, "endings wait in Redis", func() bool { return endings(t.Context(), db.Client(), db.of(3)) > 200 })
				pg.Again()
			})
		})
	}
}

// The database is gone while notices fall due: they are not later for it.
func TestUnavailableDatabaseDelaysNothing(t *testing.T) {
	const n, each = 1000, 4 * time.Millisecond
	rec := listen(t, nil)
	db, pg := newRedis(t), testkit.StartPostgres(t)
	database := pg.Database()
	s := launch(t, db.URL(), wide(rec.url), []string{"NOTIFIER_HISTORY_URL=" + database})
	round := func(name string) spread {
		t.Helper()
		from := time.Now().Add(time.Second)
		s.scheduleAll(n, func(i int) string {
			return line(fmt.Sprintf("app1:pay:%s:%d", name, i), from.Add(time.Duration(i)*each))
		})
		_, before := rec.count()
		rec.wait(waitTimeout, before/n*n+n)
		return rec.lateness("app1:pay:" + name)
	}
	// In turn, and the best of each: what else the machine does falls on both.
	const turns = 3
	var there, gone []time.Duration
	for turn := range turns {
		x := round(fmt.Sprintf("there%d", turn))
		pg.Stop()
		y := round(fmt.Sprintf("gone%d", turn))
		pg.Again()
		t.Logf("the database there: %s; gone: %s", x, y)
		there, gone = append(there, x.p50), append(gone, y.p50)
	}
	await(t, waitTimeout, "the database has confirmed all", func() bool { return db.waiting() == 0 })
	if got := len(rows(t, database)); got != 2*turns*n {
		t.Errorf("%d rows, want %d", got, 2*turns*n)
	}
	if with, without := slices.Min(there), slices.Min(gone); without > 2*with+5*time.Millisecond {
		t.Errorf("p50 %s with the database gone, %s with it", without, with)
	}
}

// sqliteRows counts the rows of an SQLite file, with separate code from the service's.
func sqliteRows(t *testing.T, file string) map[string]int {
	t.Helper()
	db := fileOf(t, file, 10*time.Second)
	list, err := db.QueryContext(t.Context(),
		"SELECT app || ':' || module || ':' || type || ':' || name || ' ' || outcome || ' ' || ending, count(*) FROM history GROUP BY 1")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = list.Close() }()
	out := map[string]int{}
	for list.Next() {
		var name string
		var n int
		if err := list.Scan(&name, &n); err != nil {
			t.Fatal(err)
		}
		out[name] = n
	}
	if err := list.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

func fileOf(t *testing.T, file string, wait time.Duration) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", fmt.Sprintf("file:%s?_txlock=immediate&_pragma=busy_timeout(%d)", file, wait.Milliseconds()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// An instance is paused during a write to SQLite, and so keeps the file locked. The other
// instance delivers on time and logs why the history is behind. After the pause, each
// outcome gets its row.
func TestPausedInstanceHoldsSQLiteLock(t *testing.T) {
	const n = 6000
	rec := listen(t, nil)
	db, file := newRedis(t), filepath.Join(t.TempDir(), "history.db")
	kept := []string{"NOTIFIER_HISTORY_URL=sqlite://" + file, "NOTIFIER_TAKEOVER=1s"}
	first := launch(t, db.URL(), wide(rec.url), kept)
	notices := func(kind string) {
		t.Helper()
		first.scheduleAll(n, func(i int) string { return line(fmt.Sprintf("app1:pay:%s:%d", kind, i), time.Now()) })
	}
	notices("first")
	await(t, waitTimeout, "there are rows", func() bool {
		_, err := os.Stat(file)
		return err == nil && db.waiting() > 0
	})
	probe := fileOf(t, file, 20*time.Millisecond)
	held := func() bool {
		tx, err := probe.BeginTx(t.Context(), nil)
		if err == nil {
			err = tx.Rollback()
		}
		return err != nil
	}
	// The instance is stopped repeatedly, until a stop falls into a write.
	await(t, waitTimeout, "a stop during a write", func() bool {
		first.freeze()
		if held() {
			return true
		}
		first.signal(syscall.SIGCONT)
		if db.waiting() == 0 {
			notices(fmt.Sprint("more", time.Now().UnixNano()))
		}
		return false
	})
	second := launch(t, db.URL(), wide(rec.url), kept)
	_, before := rec.count()
	from := time.Now().Add(time.Second)
	second.scheduleAll(n/10, func(i int) string {
		return line(fmt.Sprintf("app1:pay:amid:%d", i), from.Add(time.Duration(i)*5*time.Millisecond))
	})
	await(t, waitTimeout, "all are delivered that the other does not hold",
		func() bool { return len(rec.of(fmt.Sprintf("app1:pay:amid:%d", n/10-1))) > 0 })
	if late := rec.lateness("app1:pay:amid"); late.p50 > 100*time.Millisecond {
		t.Errorf("deliveries are late: %s", late)
	}
	await(t, waitTimeout, "the other says why",
		func() bool { return strings.Contains(tail(second.log), "another process has locked the file") })
	if db.waiting() < n/10 {
		t.Error("the outbox in Redis is empty during the pause")
	}
	first.signal(syscall.SIGCONT)
	await(t, waitTimeout, "nothing is pending", func() bool { return second.numbers("pay").Pending == 0 })
	await(t, 2*waitTimeout, "the database has confirmed all", func() bool { return db.waiting() == 0 })
	_, came := rec.count()
	got := sqliteRows(t, file)
	for name, times := range got {
		if times != 1 || !strings.HasSuffix(name, " delivered 1") {
			t.Errorf("%s has %d rows", name, times)
		}
	}
	if len(got) != came || came <= before {
		t.Errorf("%d rows, and %d notices came", len(got), came)
	}
}
