package worker

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"notifier/internal/testkit"
)

func TestWrongHandlersAreRefused(t *testing.T) {
	ok := func(context.Context, *Notice) error { return nil }
	for want, register := range map[string]func(*Worker){
		"app:json: it is nil":      func(w *Worker) { HandleJSON[refund](w, "app:json", nil) },
		"step 1 is 0s":             func(w *Worker) { w.Handle("app", ok, Retry(-1)) },
		"needs Expires":            func(w *Worker) { w.Handle("app", ok, RetryUntilExpired(time.Hour)) },
		"at least 1m":              func(w *Worker) { w.Handle("app", ok, RetryUntilExpired(time.Second), Expires(time.Hour)) },
		"the expiry -1s":           func(w *Worker) { w.Handle("app", ok, Expires(-time.Second)) },
		"concurrency is less":      func(w *Worker) { w.Handle("app", ok, Timeout(0), Concurrency(0)) },
		"timeout 0s":               func(w *Worker) { w.Handle("app", ok, Timeout(0), Concurrency(0)) },
		"a middleware is nil":      func(w *Worker) { w.Use(nil); w.Handle("app", ok) },
		"nil or returns nil":       func(w *Worker) { w.Handle("app", ok, Use(func(Handler) Handler { return nil })) },
		"app:none: it is nil":      func(w *Worker) { w.Use(func(h Handler) Handler { return h }); w.Handle("app:none", nil) },
		"101 steps, at most 100 a": func(w *Worker) { w.Handle("app", ok, Retry(make([]time.Duration, 101)...)) },
	} {
		w := newWorker(t, testkit.SharedRedis(t))
		register(w)
		ctx, cancel := context.WithCancel(t.Context())
		cancel() // an ended context does not hide the errors
		if err := w.Run(ctx); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want ErrConfig with %q", err, want)
		}
	}
}

func TestCloseEndsRun(t *testing.T) {
	srv := testkit.SharedRedis(t)
	w, err := New(Options{Redis: srv.URL(), Namespace: srv.Namespace(), ShutdownTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}

	began, ends := make(chan struct{}), make(chan struct{})
	w.Handle("app:t:t", func(ctx context.Context, _ *Notice) error {
		close(began)
		<-ends
		_, err := w.Schedule(ctx, Request{Key: "app:t:t:2", Delay: time.Hour}) // calls work until Run has ended
		return err
	}, Timeout(time.Minute))
	done := make(chan error, 1)
	go func() { done <- w.Run(context.Background()) }()
	if _, err := w.Schedule(t.Context(), Request{Key: "app:t:t:1"}); err != nil {
		t.Fatal(err)
	}

	<-began
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.Close(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("%v while a handler runs, want the end of the context", err)
	}

	close(ends)
	if err := w.Close(t.Context()); err != nil {
		t.Error(err)
	}
	select {
	case <-w.ran:
	default:
		t.Error("Close returned before the end of Run")
	}
	if err := <-done; err != nil {
		t.Errorf("run: %v", err)
	}

	next := newWorker(t, srv)
	for key, want := range map[string]string{"app:t:t:1": "delivered", "app:t:t:2": "scheduled"} {
		if r, err := next.Find(t.Context(), key); err != nil || r.State != want {
			t.Errorf("%s: %+v, %v; want %s", key, r, err, want)
		}
	}
}

func TestClosedWorkerRefusesCalls(t *testing.T) {
	w := newWorker(t, testkit.SharedRedis(t))
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Find(t.Context(), "app:t:t:1"); !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "closed") {
		t.Errorf("%v, want ErrUnavailable: the worker is closed", err)
	}
	if err := w.Run(t.Context()); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), "Close") {
		t.Errorf("%v, want ErrConfig: Run after Close", err)
	}
}

func TestCallsDoNotWaitForRedisForever(t *testing.T) {
	w, err := New(Options{Redis: "redis://127.0.0.1:1/0"})
	if err != nil {
		t.Fatal(err)
	}

	if _, err := w.Schedule(context.Background(), Request{Key: "app:t:t:1"}); !errors.Is(err, ErrUnavailable) ||
		!strings.Contains(err.Error(), "connection refused") {
		t.Errorf("%v, want ErrUnavailable: connection refused", err)
	}
	if err := w.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
