//go:build !quick

package webhook_test

import (
	"context"
	"errors"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"

	"notifier/client/webhook"
	"notifier/internal/testkit"
)

func TestSQLInPostgres(t *testing.T) {
	t.Parallel()
	server := testkit.StartPostgres(t, "fsync=off")
	store := ordersTable(t, "pgx", server.URL("postgres"))
	sharesTheTransaction(t, store)
	if _, err := store.DB.ExecContext(t.Context(), "DELETE FROM webhook_events"); err != nil {
		t.Fatal(err)
	}
	runsOnce(t, store)

	// Begin waits for another process with the key: if that one fails, this one processes the callback.
	second := &webhook.SQL{DB: store.DB, Wait: time.Minute}
	begun, broken := make(chan bool), errors.New("broken")
	first := make(chan error, 1)
	go func() {
		first <- webhook.Once(store).Do(t.Context(), "msg_9", func(ctx context.Context) error {
			var id int
			err := webhook.Tx(ctx).QueryRowContext(ctx, "SELECT pg_backend_pid()").Scan(&id)
			begun <- true
			for waiting := 0; err == nil && waiting == 0; {
				err = store.DB.QueryRowContext(ctx, "SELECT count(*) FROM pg_stat_activity WHERE $1 = ANY(pg_blocking_pids(pid))", id).Scan(&waiting)
			}
			return errors.Join(err, broken)
		})
	}()
	<-begun
	ran := false
	if err := webhook.Once(second).Do(t.Context(), "msg_9", func(context.Context) error { ran = true; return nil }); err != nil || !ran {
		t.Errorf("after the failure of the first: %v, ran %v", err, ran)
	}
	if err := <-first; !errors.Is(err, broken) || rows(t, store, "webhook_events") != 4 {
		t.Errorf("%v, %d rows", err, rows(t, store, "webhook_events"))
	}

	// It is running after the wait.
	second.Wait = time.Millisecond
	err := webhook.Once(store).Do(t.Context(), "msg_10", func(ctx context.Context) error {
		if err := webhook.Once(second).Do(ctx, "msg_10", func(context.Context) error { return nil }); !errors.Is(err, webhook.ErrRunning) {
			t.Errorf("while the first runs: %v", err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
