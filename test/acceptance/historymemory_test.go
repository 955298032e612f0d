//go:build fault

package acceptance

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"notifier/internal/testkit"
)

// The database is unavailable until the outbox has filled Redis's memory. A fifth of the
// memory stays free, so that no notice is refused. The oldest outbox entries are dropped and
// counted, and all others get their row.
func TestOutboxLeavesAFifthOfRedisFree(t *testing.T) {
	const most, batch, size = 40 << 20, 500, 1500
	rec, pg := listen(t, nil), testkit.StartPostgres(t)
	db := newRedis(t, testkit.WithConfig(fmt.Sprintf("maxmemory %d", most), "maxmemory-policy noeviction"))
	database := pg.Database()
	s := launch(t, db.URL(), wide(rec.url), []string{"NOTIFIER_HISTORY_URL=" + database, "NOTIFIER_RETENTION=0"})
	made := 0
	notices := func() {
		t.Helper()
		s.scheduleAll(batch, func(i int) string { // it fails the test if one is refused
			return fmt.Sprintf(`{"key":"app1:pay:paid:%d","body":{"pad":%q}}`, made+i, strings.Repeat("x", size))
		})
		made += batch
		await(t, waitTimeout, "all are delivered", func() bool { return s.numbers("pay").Pending == 0 })
	}
	notices()
	await(t, waitTimeout, "there are rows", func() bool { return db.waiting() == 0 })
	pg.Stop()
	lost := func() int {
		return int(db.sum(func(shard int) int64 {
			n, err := db.Client().HGet(t.Context(), db.space().History(shard), "lost").Int64()
			if err != nil {
				n = 0
			}
			return n
		}))
	}
	used := func() (most int) { // of any server
		for _, s := range db.servers {
			n, err := strconv.Atoi(s.Client().InfoMap(t.Context(), "memory").Item("Memory", "used_memory"))
			if err != nil {
				t.Fatal(err)
			}
			most = max(most, n)
		}
		return most
	}
	peak, deadline := 0, time.Now().Add(2*waitTimeout)
	for after := 0; after < 20; {
		if time.Now().After(deadline) {
			t.Fatalf("nothing was dropped: %d made, %d bytes used", made, used())
		}
		notices()
		if peak = max(peak, used()); lost() > 0 {
			after++
		}
	}
	t.Logf("%d notices made; at most %d of %d bytes used; %d endings dropped", made, peak, most, lost())
	if peak > most*90/100 {
		t.Errorf("%d of %d bytes were used", peak, most)
	}
	await(t, waitTimeout, "the metric counts what Redis does", func() bool { // which is first
		return s.metric("notifier_history_failures_total", `kind="memory"`) == float64(lost())
	})
	await(t, waitTimeout, "the log says so", func() bool { return strings.Contains(tail(s.log), "less than a fifth of its maxmemory left") })
	await(t, waitTimeout, "a fifth is free", func() bool { return used() <= most*4/5 })
	pg.Again()
	await(t, 2*waitTimeout, "the database has confirmed all", func() bool { return db.waiting() == 0 })
	rec.once(made)
	got := rows(t, database)
	if len(got) != made-lost() {
		t.Errorf("%d rows of %d notices, %d endings dropped", len(got), made, lost())
	}
	for i := made - batch; i < made; i++ { // only the oldest may be dropped
		if name := fmt.Sprintf("app1:pay:paid:%d delivered 1", i); got[name] != 1 {
			t.Fatalf("%s has %d rows", name, got[name])
		}
	}
}
