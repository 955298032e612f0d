//go:build !quick

package engine

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"notifier/internal/history"
	"notifier/internal/notice"
	"notifier/internal/store"
	"notifier/internal/testkit"
)

// The documented restore of a backup delivered 3,131 of 4,500 notices twice.
func TestRestoredBackupDeliversNothingThatTheHistoryHas(t *testing.T) {
	t.Parallel()
	onDatabaseURLs(t, func(t *testing.T, url string) {
		srv := testkit.StartRedis(t)
		s := newSink(1000)
		s.answer = func(n *notice.Notice) notice.Result {
			if strings.HasSuffix(n.Key, ":dead") && n.AttemptsMade == 0 {
				return notice.DeadResult(notice.ReasonGone, "no")
			}
			return notice.DeliveredResult(200)
		}
		engine := func() (*world, *history.DB) {
			d := openHistory(t, url)
			return start(t, srv, s, func(o *Options) { o.History, o.Space.Shards = History{DB: d, Backlog: 1000}, 2 }, testRoute("r", "app1")), d
		}
		w, d := engine()
		const n = 12
		named := func(id string) string { return "app1:trans:notice:" + id }
		w.put(t, n, func(i int) store.Request { return store.Request{Key: key(i), Delay: time.Hour} })
		w.put(t, 1, func(int) store.Request { return store.Request{Key: named("dead")} })
		s.await(t, 1)
		w.until(t, named("dead"), notice.Dead)
		rowsOf(t, d, history.Query{}, 1)
		backup := backUp(t, srv.Client())

		// Afterwards 8 are delivered, 2 cancelled, 2 wait, and the dead letter is delivered.
		for i := range 10 {
			op := store.Fire
			if i >= 8 {
				op = store.Cancel
			}
			if _, err := w.amend(t.Context(), key(i), op, store.When{}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := w.amend(t.Context(), named("dead"), store.Redrive, store.When{}); err != nil {
			t.Fatal(err)
		}
		s.await(t, 9)
		rowsOf(t, d, history.Query{}, 12)
		w.stop()

		restore(t, srv.Client(), backup)
		w, d = engine()
		if _, err := d.Settle(t.Context(), w.store, false); !errors.Is(err, history.ErrNotPaused) {
			t.Fatalf("while the route may deliver: %v", err)
		}
		if err := w.store.Layout.Pause(t.Context(), "app1"); err != nil {
			t.Fatal(err)
		}
		want := history.Settled{Checked: n + 1, Delivered: 9, Cancelled: 2}
		for _, dry := range []bool{true, false} {
			if done, err := d.Settle(t.Context(), w.store, dry); err != nil || done != want {
				t.Errorf("dry %v: %+v, %v; want %+v", dry, done, err, want)
			}
		}
		if done, err := d.Settle(t.Context(), w.store, false); err != nil || done != (history.Settled{Checked: 2}) {
			t.Errorf("again: %+v, %v", done, err)
		}
		for i := range n {
			state := notice.Delivered
			if i >= 8 {
				state = notice.Cancelled
			}
			if i >= 10 {
				state = notice.Scheduled
			}
			f, err := w.Find(t.Context(), key(i))
			if err != nil || f.State != state || state == notice.Delivered && (len(f.Attempts) != 1 || f.Attempts[0].Status != 200) {
				t.Errorf("notice %d is %s, want %s: %+v, %v", i, f.State, state, f.Notice, err)
			}
		}
		if err := w.store.Layout.Resume(t.Context(), "app1"); err != nil {
			t.Fatal(err)
		}
		for i := range n {
			_, err := w.amend(t.Context(), key(i), store.Fire, store.When{})
			if err != nil {
				t.Fatal(err)
			}
		}
		s.await(t, 2)
		got := map[string]int{}
		for _, r := range rowsOf(t, d, history.Query{}, 14) {
			if r.Outcome == notice.EndDelivered {
				got[r.Key]++
			}
		}
		if len(got) != 11 {
			t.Errorf("delivered: %v", got)
		}
		for k, times := range got {
			if times != 1 {
				t.Errorf("%s was delivered %d times", k, times)
			}
		}
		if left := w.srv.Client().Keys(t.Context(), "app1:*").Val(); len(left) > 0 {
			t.Errorf("timers are left: %s", fmt.Sprint(left))
		}
	})
}
