package webhook_test

import (
	"context"
	"database/sql"
	"errors"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"notifier/client/webhook"
	"notifier/internal/testkit"
)

// ordersTable opens a store in a database that also has the table of the handlers' work.
func ordersTable(t *testing.T, driver, dsn string) *webhook.SQL {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	for _, text := range []string{"CREATE TABLE webhook_events (id varchar(255) PRIMARY KEY, at bigint NOT NULL)",
		"CREATE TABLE orders (id varchar(20))"} {
		if _, err := db.Exec(text); err != nil {
			t.Fatal(err)
		}
	}
	return &webhook.SQL{DB: db}
}

func sqliteStore(t *testing.T) *webhook.SQL {
	t.Helper()
	return ordersTable(t, "sqlite", "file:"+filepath.Join(t.TempDir(), "orders.db")+"?_pragma=busy_timeout(10000)")
}

// Every store runs a handler once, after failures again, and never answers a success while a handler runs.
func TestStoresRunAHandlerOnce(t *testing.T) {
	t.Parallel()
	for name, store := range map[string]webhook.Store{"memory": webhook.NewMemory(time.Hour), "sqlite": sqliteStore(t),
		"redis": newRedisStore(testkit.StartRedis(t).Client(), time.Minute, time.Hour)} {
		t.Run(name, func(t *testing.T) { runsOnce(t, store) })
	}
}

func runsOnce(t *testing.T, store webhook.Store) {
	t.Helper()
	p, ctx, broken := webhook.Once(store), t.Context(), errors.New("broken")
	calls := 0
	count := func(err error) func(context.Context) error {
		return func(context.Context) error { calls++; return err }
	}
	if err := p.Do(ctx, "msg_1", count(broken)); !errors.Is(err, broken) || webhook.Status(err) != 500 {
		t.Errorf("a failure is answered with %v", err)
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
		}()
		_ = p.Do(ctx, "msg_1", func(context.Context) error { calls++; panic("bug") })
	}()
	err := p.Do(ctx, "msg_1", func(inner context.Context) error {
		calls++
		if err := p.Do(inner, "msg_1", count(nil)); !errors.Is(err, webhook.ErrRunning) || webhook.Status(err) != 409 {
			t.Errorf("while the handler runs: %v", err)
		}
		return nil
	})
	for range 2 {
		err = errors.Join(err, p.Do(ctx, "msg_1", count(broken)))
	}
	if err != nil || calls != 3 {
		t.Errorf("%d calls, %v; want a failure, a panic and a success", calls, err)
	}
	if err := p.Do(ctx, "msg_1#1", count(nil)); err != nil || calls != 4 {
		t.Errorf("a resend: %d calls, %v", calls, err)
	}

	var ran atomic.Int32
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			err := p.Do(ctx, "msg_2", func(context.Context) error { ran.Add(1); return nil })
			if err != nil && !errors.Is(err, webhook.ErrRunning) {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if ran.Load() != 1 {
		t.Errorf("%d of 20 concurrent calls ran the handler", ran.Load())
	}
}

// The end of the request does not end the marking, so a handler that ignores it is not run again.
func TestOnceMarksAfterTheRequestHasEnded(t *testing.T) {
	t.Parallel()
	p := webhook.Once(newRedisStore(testkit.StartRedis(t).Client(), time.Minute, time.Hour))
	ctx, cancel := context.WithCancel(t.Context())
	if err := p.Do(ctx, "msg_1", func(context.Context) error { cancel(); return nil }); err != nil {
		t.Error(err)
	}
	if err := p.Do(t.Context(), "msg_1", func(context.Context) error { return errors.New("it ran again") }); err != nil {
		t.Error(err)
	}
}

// The work and the mark are committed together, or neither.
func TestSQLCommitsTheWorkWithTheMark(t *testing.T) {
	t.Parallel()
	sharesTheTransaction(t, sqliteStore(t))
}

func sharesTheTransaction(t *testing.T, store *webhook.SQL) {
	t.Helper()
	p, broken := webhook.Once(store), errors.New("broken")
	for _, want := range []error{broken, nil, nil} {
		err := p.Do(t.Context(), "msg_1", func(ctx context.Context) error {
			_, err := webhook.Tx(ctx).ExecContext(ctx, "INSERT INTO orders VALUES ('4711')")
			return errors.Join(err, want)
		})
		if !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	}
	if got := rows(t, store, "orders") + rows(t, store, "webhook_events"); got != 2 {
		t.Errorf("%d rows, want one of the work and one of the callback", got)
	}

	ctx, cancel := context.WithCancel(t.Context()) // the sender has hung up, which rolls back
	err := p.Do(ctx, "msg_2", func(context.Context) error { cancel(); return ctx.Err() })
	if !errors.Is(err, context.Canceled) || rows(t, store, "webhook_events") != 1 {
		t.Errorf("%v, %d rows", err, rows(t, store, "webhook_events"))
	}
	if err := p.Do(t.Context(), "msg_2", func(context.Context) error { return nil }); err != nil || rows(t, store, "webhook_events") != 2 {
		t.Errorf("the next attempt: %v", err)
	}
}

func rows(t *testing.T, store *webhook.SQL, table string) (n int) {
	t.Helper()
	if err := store.DB.QueryRowContext(t.Context(), "SELECT count(*) FROM "+table).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestSQLReportsErrorsOfTheDatabase(t *testing.T) {
	t.Parallel()
	store := sqliteStore(t)
	if _, err := store.DB.ExecContext(t.Context(), "DROP TABLE webhook_events"); err != nil {
		t.Fatal(err)
	}
	ran := errors.New("it ran")
	for range 2 { // an error leaves no key that looks like a running handler
		err := webhook.Once(store).Do(t.Context(), "msg_1", func(context.Context) error { return ran })
		if err == nil || errors.Is(err, ran) || webhook.Status(err) != 500 {
			t.Errorf("%v", err)
		}
	}
}

func TestMemoryForgetsAfterItsTime(t *testing.T) {
	t.Parallel()
	p, calls := webhook.Once(webhook.NewMemory(0)), 0
	for range 2 {
		for _, key := range []string{"msg_1", "msg_2"} { // by then msg_1 is older than 0 s
			if err := p.Do(t.Context(), key, func(context.Context) error { calls++; return nil }); err != nil {
				t.Error(err)
			}
		}
	}
	if calls != 4 {
		t.Errorf("%d calls, want 4", calls)
	}
}

func TestKeyHasTheNumberOfTheResend(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		h    http.Header
		id   string // that the signature covers
		want string // empty = an error
	}{
		{http.Header{"Webhook-Id": {"msg_1"}}, "msg_1", "msg_1"},
		{http.Header{"Webhook-Id": {"msg_1"}, "Notifier-Resend": {"2"}}, "msg_1", "msg_1#2"},
		{http.Header{"Webhook-Id": {"forged"}}, "msg_1", "msg_1"},
		{http.Header{"Webhook-Id": {"msg_1"}}, "", "msg_1"},
		{http.Header{}, "", ""},
		{http.Header{"Notifier-Resend": {"0"}}, "msg_1", ""},
		{http.Header{"Notifier-Resend": {"-1"}}, "msg_1", ""},
		{http.Header{"Notifier-Resend": {"one"}}, "msg_1", ""},
		{http.Header{"Notifier-Resend": {"1", "2"}}, "msg_1", ""},
		{http.Header{"Notifier-Resend": {""}}, "msg_1", ""},
	} {
		got, err := webhook.Key(c.h, webhook.Result{ID: c.id})
		if got != c.want || (err == nil) != (c.want != "") || err != nil && webhook.Status(err) != 401 {
			t.Errorf("%v: %q, %v", c.h, got, err)
		}
	}
}
