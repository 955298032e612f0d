package engine

import (
	"database/sql"
	"testing"
	"time"

	"notifier/internal/history"
	"notifier/internal/store"
	"notifier/internal/testkit"
)

// The table of erasures grew with each key that never existed.
func TestErasureThatFindsNothingIsNotRecorded(t *testing.T) {
	t.Parallel()
	file := t.TempDir() + "/history.db"
	d := openHistory(t, "sqlite://"+file)
	srv, s := testkit.SharedRedis(t), newSink(10)
	w := start(t, srv, s, func(o *Options) { o.History = History{DB: d, Backlog: 1000} }, testRoute("r", "app1"))
	w.put(t, 1, func(i int) store.Request { return store.Request{Key: key(i)} })
	s.await(t, 1)
	rowsOf(t, d, history.Query{}, 1)
	eventually(t, "the outbox is empty", func() bool {
		n, err := history.Outbox{Wire: w.store.Wire()}.Length(t.Context())
		return err == nil && n == 0
	})
	raw, err := sql.Open("sqlite", file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = raw.Close() })
	erase := func(x history.Erasure, want int) {
		t.Helper()
		if _, err := w.Erase(t.Context(), x); err != nil {
			t.Fatal(err)
		}
		var n int
		if err := raw.QueryRow("SELECT count(*) FROM history_erased").Scan(&n); err != nil || n != want {
			t.Errorf("%+v: %d erasures are recorded, want %d, %v", x, n, want, err)
		}
	}

	erase(history.Erasure{Key: "app1:no:such:notice"}, 0)
	erase(history.Erasure{Host: "no.example"}, 0)
	erase(history.Erasure{Key: key(0)}, 1)

	// Another instance holds the outbox, so an entry stays there.
	c, space := srv.Client(), w.store.Space()
	if err := c.HSet(t.Context(), space.History(0), "holder", "x", "until", time.Now().Add(50*time.Second).UnixMilli()).Err(); err != nil {
		t.Fatal(err)
	}
	w.put(t, 1, func(int) store.Request { return store.Request{Key: key(1)} })
	s.await(t, 1)
	eventually(t, "the entry is in the outbox", func() bool {
		n, err := history.Outbox{Wire: w.store.Wire()}.Length(t.Context())
		return err == nil && n == 1
	})
	erase(history.Erasure{Key: "app1:no:such:other"}, 2)

	if err := w.eraser.PassOutboxes(t.Context()); err != nil {
		t.Error(err)
	}
	var homes int
	if err := raw.QueryRow("SELECT count(*) FROM history_outboxes").Scan(&homes); err != nil || homes != 1 {
		t.Errorf("%d outboxes are known, %v", homes, err)
	}
}
