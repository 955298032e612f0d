//go:build fault

package acceptance

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"notifier/internal/pgtest"
	"notifier/internal/redistest"
)

// PostgreSQL ends, by kill and by an administrator, while instances are killed and
// notices end: each ending has its row all the same.
func TestEachEndingHasOneRowWhateverTheDatabaseDoes(t *testing.T) {
	for name, end := range map[string]func(*pgtest.Server){"killed": (*pgtest.Server).Kill, "stopped": (*pgtest.Server).Stop} {
		t.Run(name, func(t *testing.T) {
			pg := pgtest.Start(t)
			historyKeepsAll(t, 1500, pg.Database(), func(db *redistest.Server) {
				end(pg)
				await(t, waitTimeout, "endings wait in Redis", func() bool { return db.Client().LLen(t.Context(), "notifier:{0}:ended").Val() > 200 })
				pg.Again()
			})
		})
	}
}

// The database is gone while notices fall due: they are not later for it.
func TestTheDatabaseGoneDelaysNothing(t *testing.T) {
	const n, each = 1000, 4 * time.Millisecond
	rec := listen(t, nil)
	db, pg := redistest.Start(t), pgtest.Start(t)
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
	await(t, waitTimeout, "the database has confirmed all", func() bool { return db.Client().LLen(t.Context(), "notifier:{0}:ended").Val() == 0 })
	if got := len(rows(t, database)); got != 2*turns*n {
		t.Errorf("%d rows, want %d", got, 2*turns*n)
	}
	if with, without := slices.Min(there), slices.Min(gone); without > 2*with+5*time.Millisecond {
		t.Errorf("p50 %s with the database gone, %s with it", without, with)
	}
}
