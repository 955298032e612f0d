//go:build !quick

package acceptance

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"notifier/client"
	"notifier/internal/testkit"
)

// Instances with a history and one without are killed one after the other, while notices
// are delivered, die, are redriven, cancelled and replaced. The database then has one row
// for each outcome that the producer knows of, and no other row.
func TestHistoryHasOneRowPerOutcomeAfterKills(t *testing.T) {
	historyKeepsAll(t, 300, 1, testkit.PostgresDatabase(t), nil)
}

// historyKeepsAll creates n notices of each kind, in the given number of shards. It calls
// between after a kill, with a function that cancels and replaces more notices.
func historyKeepsAll(t *testing.T, n, shards int, database string, between func(db *database, more func())) {
	// A killed instance may leave a notice at its first or its second attempt, so the receiver
	// rejects every attempt until all these notices are dead.
	var back atomic.Bool
	rec := listen(t, func(w http.ResponseWriter, _ *http.Request, h hit) {
		if strings.Contains(h.key, ":gone:") && !back.Load() {
			w.WriteHeader(http.StatusGone)
		}
	})
	db := newRedis(t)
	env := func(lists ...[]string) [][]string {
		return append([][]string{route("pay", "app1", rec.url, "CONCURRENCY=32", "HOST_CONCURRENCY=64", "TIMEOUT=2s"),
			{"NOTIFIER_TAKEOVER=1s", fmt.Sprintf("NOTIFIER_SHARDS=%d", shards)}}, lists...)
	}
	kept := []string{"NOTIFIER_HISTORY_URL=" + database}
	first, second := launch(t, db.URL(), env(kept)...), launch(t, db.URL(), env(kept)...)
	plain := launch(t, db.URL(), env()...)
	soon := time.Now().Add(time.Second)
	key := func(kind string, i int) string { return fmt.Sprintf("app1:m:%s:%d", kind, i) }
	plain.scheduleAll(n, func(i int) string {
		return line(key("paid", i), soon.Add(time.Duration(i)*8*time.Second/time.Duration(n)))
	})
	plain.scheduleAll(n, func(i int) string {
		return line(key("gone", i), soon.Add(time.Duration(i)*time.Second/time.Duration(n)))
	})
	plain.scheduleAll(n, func(i int) string { return line(key("stopped", i), soon.Add(time.Hour)) })
	plain.scheduleAll(n, func(i int) string { return line(key("renewed", i), soon.Add(time.Hour)) })

	// The log of the producer.
	want := map[string]int{}
	for i := range n {
		want[key("paid", i)+" delivered 1"]++
		want[key("gone", i)+" dead 1"]++
		want[key("gone", i)+" delivered 2"]++
		want[key("stopped", i)+" cancelled 1"]++
		want[key("renewed", i)+" replaced 1"]++
		want[key("renewed", i)+" delivered 1"]++
	}
	change := func(api *client.Client, from, to int) {
		for i := from; i < to; i++ {
			if _, err := api.Cancel(t.Context(), key("stopped", i)); err != nil {
				t.Fatal(err)
			}
			if _, err := api.Schedule(t.Context(), client.Request{Key: key("renewed", i), Body: []byte(`{"key":"new"}`), OnDuplicate: client.Replace}); err != nil {
				t.Fatal(err)
			}
		}
	}
	change(plain.api, 0, n/3)
	first.kill()
	more := sync.OnceFunc(func() { change(second.api, n/3, 2*n/3) })
	if between != nil {
		between(db, more)
	}
	more()
	plain.kill()
	third := launch(t, db.URL(), env(kept)...)
	change(third.api, 2*n/3, n)
	await(t, waitTimeout, "all that are gone are dead", func() bool { return third.numbers("pay").Dead == int64(n) })
	second.kill()
	back.Store(true)
	for i := range n {
		if _, err := third.api.Redrive(t.Context(), key("gone", i)); err != nil {
			t.Fatal(err)
		}
	}
	await(t, 2*waitTimeout, "nothing is pending", func() bool { x := third.numbers("pay"); return x.Pending == 0 && x.Dead == 0 })
	await(t, 2*waitTimeout, "the database has confirmed all", func() bool { return endings(t.Context(), db.Client(), db.of(shards)) == 0 })

	got := rows(t, database)
	missing, wrong := 0, 0
	for k, times := range want {
		if got[k] != times {
			if missing++; missing <= 5 {
				t.Errorf("%s has %d rows, want %d", k, got[k], times)
			}
		}
		delete(got, k)
	}
	for k := range got {
		if wrong++; wrong <= 5 {
			t.Errorf("unexpected row: %s", k)
		}
	}
	if missing+wrong > 0 {
		t.Errorf("%d of %d outcomes have a wrong number of rows, and %d rows are unexpected", missing, len(want), wrong)
	}
	for shard := range shards {
		if lost := db.Client().HGet(t.Context(), db.of(shards).History(shard), "lost").Val(); lost != "" {
			t.Errorf("%s endings were dropped", lost)
		}
	}
}

// rows counts the rows of the database, with separate code from the service's.
func rows(t *testing.T, database string) map[string]int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
	defer cancel()
	c, err := pgx.Connect(ctx, database)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(ctx) }()
	list, err := c.Query(ctx, "SELECT concat_ws(':', app, module, type, name) || ' ' || outcome || ' ' || ending, count(*) FROM history "+
		"GROUP BY 1")
	if err != nil {
		t.Fatal(err)
	}
	defer list.Close()
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
