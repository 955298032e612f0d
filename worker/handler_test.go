package worker

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"notifier/internal/testkit"
)

// ended waits until a notice has a state.
func ended(t *testing.T, w *Worker, key, state string) (r Reply) {
	t.Helper()
	testkit.Await(t, func() (err error) {
		if r, err = w.Find(t.Context(), key); err == nil && r.State != state {
			return fmt.Errorf("%s is %+v, want %s", key, r, state)
		}
		return err
	})
	return r
}

type refund struct{ Amount int }

func TestHandlersResultDecidesWhatFollows(t *testing.T) {
	w := newWorker(t, testkit.SharedRedis(t))
	var deferred, retried, wrapped atomic.Int32
	w.Use(func(next Handler) Handler {
		return func(ctx context.Context, n *Notice) error {
			wrapped.Add(1)
			return next(ctx, n)
		}
	})
	w.Handle("app:t:defer", func(_ context.Context, n *Notice) error {
		if deferred.Add(1) == 1 {
			return Defer(20 * time.Millisecond)
		}
		if n.Attempt != 1 {
			t.Errorf("attempt %d after a deferral", n.Attempt)
		}
		return nil
	})
	w.Handle("app:t:retry", func(_ context.Context, n *Notice) error {
		if retried.Add(1) == 1 {
			return RetryAfter(20*time.Millisecond, errors.New("not yet"))
		}
		if n.Attempt != 2 || n.MaxAttempts != 2 {
			t.Errorf("attempt %d of %d, want 2 of 2", n.Attempt, n.MaxAttempts)
		}
		return errors.New("never")
	}, Retry(10*time.Millisecond))
	w.Handle("app:t:dead", func(context.Context, *Notice) error { return Dead(errors.New("no such order")) })
	w.Handle("app:t:panic", func(context.Context, *Notice) error { panic("broken") }, Retry())
	w.Handle("app:t:exit", func(context.Context, *Notice) error { runtime.Goexit(); return nil }, Retry())
	w.Handle("app:t:slow", func(ctx context.Context, _ *Notice) error {
		<-ctx.Done()
		return context.Cause(ctx)
	}, Timeout(50*time.Millisecond), Retry())
	HandleJSON(w, "app:t:json", func(_ context.Context, _ *Notice, r refund) error {
		if r.Amount != 7 {
			t.Errorf("decoded %+v", r)
		}
		return nil
	})
	start(t, w)
	list := []Request{{Key: "app:t:defer:1"}, {Key: "app:t:retry:1"}, {Key: "app:t:dead:1"}, {Key: "app:t:panic:1"}, {Key: "app:t:slow:1"},
		{Key: "app:t:json:1", JSON: refund{7}}, {Key: "app:t:json:2", Body: []byte("no")}, {Key: "other:t:t:1"}, {Key: "app:t:exit:1"}}
	replies, err := w.ScheduleMany(t.Context(), list)
	if err != nil {
		t.Fatal(err)
	}
	if err := replies[7].Err; !errors.Is(err, ErrUnhandled) {
		t.Errorf("%v, want ErrUnhandled", err)
	}

	ended(t, w, "app:t:defer:1", "delivered")
	ended(t, w, "app:t:json:1", "delivered")
	for key, want := range map[string]struct {
		reason, response string
		attempts         int
	}{
		"app:t:retry:1": {"rejected", "never", 2}, "app:t:dead:1": {"rejected", "no such order", 1},
		"app:t:panic:1": {"panic", "broken\n", 1}, "app:t:slow:1": {"timeout", ErrTimeout.Error(), 1},
		"app:t:exit:1": {"panic", "the handler ended its goroutine", 1}, "app:t:json:2": {"decode", "decode the body: ", 1},
	} {
		r := ended(t, w, key, "dead")
		if r.Reason != want.reason || !strings.HasPrefix(r.Response, want.response) || r.Attempts != want.attempts {
			t.Errorf("%s: %+v, want %+v", key, r, want)
		}
	}

	if r, _ := w.Find(t.Context(), "app:t:panic:1"); !strings.Contains(r.Response, "handler_test.go") {
		t.Errorf("the attempt has no stack: %q", r.Response)
	}
	if n := wrapped.Load(); n < 9 {
		t.Errorf("the middleware was called %d times", n)
	}
}

func TestScheduleManyRefusesOnlyWrongRequests(t *testing.T) {
	w := newWorker(t, testkit.SharedRedis(t))
	w.Handle("app:t:t", func(context.Context, *Notice) error { return nil })
	list := []Request{{Key: "app:t:t:1", Delay: time.Hour}, {Key: "app:t:t:2", JSON: func() {}}, {Key: "app:t:t"},
		{Key: "app:t:t:3", Header: map[string]string{"X-A": "1", "x-a": "2"}}, {Key: "app:t:t:4", OnDuplicate: "merge"},
		{Key: "app:t:t:5", Delay: time.Hour}}
	replies, err := w.ScheduleMany(t.Context(), list)
	if err != nil {
		t.Fatal(err)
	}

	for i, r := range replies {
		if good := i == 0 || i == 5; r.Key != list[i].Key || r.Changed != good || errors.Is(r.Err, ErrInvalid) == good {
			t.Errorf("%s: %+v", list[i].Key, r)
		}
	}
}

func TestShutdownCancelsHandlersAfterItsTimeout(t *testing.T) {
	srv := testkit.SharedRedis(t)
	w := newWorker(t, srv)
	began, cause := make(chan struct{}), make(chan error, 1)
	w.Handle("app:t:t", func(ctx context.Context, _ *Notice) error {
		close(began)
		<-ctx.Done()
		cause <- context.Cause(ctx)
		return ctx.Err()
	}, Timeout(time.Minute))
	stop := start(t, w)
	if _, err := w.Schedule(t.Context(), Request{Key: "app:t:t:1"}); err != nil {
		t.Fatal(err)
	}

	<-began
	stop()
	if err := <-cause; !errors.Is(err, ErrShutdown) {
		t.Errorf("%v, want ErrShutdown", err)
	}

	next := newWorker(t, srv) // without handlers: schedules and finds without Run
	if r, err := next.Find(t.Context(), "app:t:t:1"); err != nil || r.State != "scheduled" || r.Attempts != 0 {
		t.Errorf("%+v, %v: want scheduled without an attempt", r, err)
	}
	if r, err := next.Cancel(t.Context(), "app:t:t:1"); err != nil || !r.Changed {
		t.Errorf("cancel: %+v, %v", r, err)
	}
}

func TestRunReturnsAllErrorsOfRegistration(t *testing.T) {
	w := newWorker(t, testkit.SharedRedis(t))
	ok := func(context.Context, *Notice) error { return nil }
	w.Handle("app", ok)
	w.Handle("app", ok)
	w.Handle("no prefix", ok)
	w.Handle("app:slow", ok, Timeout(2*time.Hour))
	w.Handle("app:nil", nil)
	err := w.Run(t.Context())
	for _, want := range []string{"both have the prefix app", "no prefix", "2h0m0s", "app:nil"} {
		if !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want ErrConfig with %q", err, want)
		}
	}

	if err := w.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "before") {
		t.Errorf("%v for a second Run", err)
	}

	late := newWorker(t, testkit.SharedRedis(t))
	if _, err := late.Find(t.Context(), "app:t:t:1"); !errors.Is(err, ErrNotFound) {
		t.Errorf("%v, want ErrNotFound", err)
	}

	defer func() {
		if recover() == nil {
			t.Error("Handle after a call does not panic")
		}
	}()
	late.Handle("app", ok)
}

func TestFinishedKeyIsADuplicate(t *testing.T) {
	w := newWorker(t, testkit.SharedRedis(t))
	h := newHandled()
	w.Handle("app:t:t", h.notice)
	start(t, w)
	r := Request{Key: "app:t:t:1", JSON: refund{7}}
	if got, err := w.Schedule(t.Context(), r); err != nil || !got.Changed {
		t.Fatalf("%+v, %v", got, err)
	}

	ended(t, w, r.Key, "delivered")
	many := Request{Key: "app:t:t:2", Delay: time.Hour, Header: map[string]string{}}
	for i := range 20 {
		many.Header[fmt.Sprint("X-", i)] = "1"
	}
	for range 3 { // the order of a map differs
		if _, err := w.Schedule(t.Context(), many); err != nil {
			t.Fatal(err)
		}
	}

	if got, err := w.Schedule(t.Context(), r); err != nil || got.Changed || got.State != "delivered" {
		t.Errorf("the same content: %+v, %v; want the delivered notice", got, err)
	}

	r.JSON = refund{8}
	if got, err := w.Schedule(t.Context(), r); !errors.Is(err, ErrConflict) || got.Changed {
		t.Errorf("other content: %+v, %v; want ErrConflict", got, err)
	}

	r.OnDuplicate = Keep
	if got, err := w.Schedule(t.Context(), r); err != nil || got.Changed {
		t.Errorf("keep: %+v, %v", got, err)
	}

	r.OnDuplicate = Replace
	if got, err := w.Schedule(t.Context(), r); err != nil || !got.Changed {
		t.Errorf("replace: %+v, %v; want another notice", got, err)
	}
}
