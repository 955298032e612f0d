package pghistory_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"notifier/internal/history"
	"notifier/internal/testkit"
	"notifier/worker"
	_ "notifier/worker/pghistory"
	_ "notifier/worker/sqlitehistory"
)

// Each database, with its package imported.
func TestFinalizedNoticesHaveRows(t *testing.T) {
	t.Run("PostgreSQL", func(t *testing.T) { haveRows(t, testkit.PostgresDatabase(t)) })
	t.Run("SQLite", func(t *testing.T) { haveRows(t, "sqlite://"+t.TempDir()+"/history.db") })
}

func haveRows(t *testing.T, address string) {
	srv := testkit.SharedRedis(t)
	w, err := worker.New(worker.Options{Redis: srv.URL(), Namespace: srv.Namespace(), ShutdownTimeout: time.Second, History: address,
		HistoryBodies: "drop"})
	if err != nil {
		t.Fatal(err)
	}

	w.Handle("app:t:good", func(context.Context, *worker.Notice) error { return nil })
	w.Handle("app:t:bad", func(context.Context, *worker.Notice) error { return worker.Dead(errors.New("no such order")) })
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	for _, key := range []string{"app:t:good:1", "app:t:bad:1"} {
		if _, err := w.Schedule(t.Context(), worker.Request{Key: key, Body: []byte("secret")}); err != nil {
			t.Fatal(err)
		}
	}

	d, err := history.Open(history.Options{URL: address})
	if err != nil {
		t.Fatal(err)
	}

	defer func() { _ = d.Close() }()
	var page history.Page
	testkit.Await(t, func() error {
		if page, err = d.Find(t.Context(), history.Query{Limit: 10}); err == nil && len(page.Rows) < 2 {
			return fmt.Errorf("%d rows, want 2", len(page.Rows))
		}
		return err
	})

	got := map[string]string{}
	for _, r := range page.Rows {
		got[r.Key] = string(r.Outcome)
		if len(r.Notice.Body) > 0 {
			t.Errorf("%s has its body, which HistoryBodies drops", r.Key)
		}
	}

	if len(got) != 2 || got["app:t:good:1"] != "delivered" || got["app:t:bad:1"] != "dead" {
		t.Errorf("the rows are %v", got)
	}
}
