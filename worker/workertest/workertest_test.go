package workertest_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"notifier/worker"
	"notifier/worker/workertest"
)

// The attempts of the default ladder are made at their times, which takes a day.
func TestAdvanceThroughTheDefaultLadder(t *testing.T) {
	began := time.Now()
	workertest.Run(t, func(t *testing.T, w *workertest.Worker) {
		var at []time.Duration
		start := w.Now()
		w.Handle("shop:orders:close", func(_ context.Context, n *worker.Notice) error {
			at = append(at, w.Now().Sub(start))
			return errors.New("not yet")
		})
		if _, err := w.Schedule(t.Context(), worker.Request{Key: "shop:orders:close:1", Delay: time.Minute}); err != nil {
			t.Fatal(err)
		}

		w.Advance(59 * time.Second)
		if len(at) != 0 {
			t.Fatalf("handled after %v, due after 1 m", at)
		}

		w.Advance(26 * time.Hour)
		due := time.Minute
		for k, step := range []time.Duration{0, 15 * time.Second, 3 * time.Minute, 10 * time.Minute, 30 * time.Minute, 30 * time.Minute,
			time.Hour, 2 * time.Hour, 6 * time.Hour, 15 * time.Hour} {
			due += step
			if k >= len(at) || at[k] < due || at[k] > due+5*time.Second {
				t.Fatalf("attempts at %v, want number %d at %s", at, k+1, due)
			}
		}

		r, err := w.Find(t.Context(), "shop:orders:close:1")
		if err != nil || r.State != "dead" || r.Attempts != 10 || len(at) != 10 {
			t.Errorf("%+v, %v after attempts at %v; want dead after 10", r, err, at)
		}
	})
	t.Logf("took %s", time.Since(began))
}

// A notice expires between two attempts, and no attempt is made later.
func TestAdvanceThroughAnExpiry(t *testing.T) {
	workertest.Run(t, func(t *testing.T, w *workertest.Worker) {
		attempts := 0
		w.Handle("shop:orders:remind", func(context.Context, *worker.Notice) error {
			attempts++
			return errors.New("not yet")
		}, worker.RetryUntilExpired(time.Hour), worker.Expires(36*time.Hour+30*time.Minute))
		if _, err := w.Schedule(t.Context(), worker.Request{Key: "shop:orders:remind:1", Delay: time.Minute}); err != nil {
			t.Fatal(err)
		}

		w.Advance(36*time.Hour + 20*time.Minute)
		if r, err := w.Find(t.Context(), "shop:orders:remind:1"); err != nil || r.State != "scheduled" || attempts != 37 {
			t.Errorf("%+v, %v after %d attempts; want scheduled after 37", r, err, attempts)
		}

		w.Advance(12 * time.Minute)
		if r, err := w.Find(t.Context(), "shop:orders:remind:1"); err != nil || r.State != "dead" || r.Reason != "expired" || attempts != 37 {
			t.Errorf("%+v, %v after %d attempts; want dead", r, err, attempts)
		}
	})
}

// A handler that sleeps has its timeout, in virtual time, and its result is stored.
func TestHandlersSleepInVirtualTime(t *testing.T) {
	workertest.Run(t, func(t *testing.T, w *workertest.Worker) {
		var cause error
		w.Handle("app:t:slow", func(ctx context.Context, _ *worker.Notice) error {
			select {
			case <-ctx.Done():
				cause = context.Cause(ctx)
				return cause
			case <-time.After(time.Hour):
				return nil
			}
		}, worker.Timeout(20*time.Minute), worker.Retry())
		w.Handle("app:t:long", func(context.Context, *worker.Notice) error {
			time.Sleep(10 * time.Minute) // sleep: virtual time
			return nil
		}, worker.Timeout(20*time.Minute), worker.Retry())
		for _, k := range []string{"app:t:slow:1", "app:t:long:1"} {
			if _, err := w.Schedule(t.Context(), worker.Request{Key: k}); err != nil {
				t.Fatal(err)
			}
		}

		w.Advance(time.Minute)
		if n := w.Stats().Running; n != 2 {
			t.Errorf("%d handlers run after a minute, want 2", n)
		}

		w.Advance(time.Hour)
		for key, want := range map[string]string{"app:t:slow:1": "dead", "app:t:long:1": "delivered"} {
			if r, err := w.Find(t.Context(), key); err != nil || r.State != want || r.Attempts != 1 {
				t.Errorf("%s: %+v, %v; want %s after 1 attempt", key, r, err, want)
			}
		}
		if !errors.Is(cause, worker.ErrTimeout) {
			t.Errorf("%v, want ErrTimeout", cause)
		}
	})
}

// A Due is a time of Redis's clock, and a retried handler beside others does not disturb them.
func TestDueFollowsTheClockOfRedis(t *testing.T) {
	workertest.Run(t, func(t *testing.T, w *workertest.Worker) {
		var at []time.Duration
		begin := w.Now()
		w.Handle("app:t:t", func(context.Context, *worker.Notice) error {
			at = append(at, w.Now().Sub(begin).Truncate(time.Minute))
			return nil
		})
		var list []worker.Request
		for k := range 3 {
			list = append(list, worker.Request{Key: "app:t:t:" + string(rune('a'+k)), Due: w.Now().Add(time.Duration(3-k) * time.Hour)})
		}

		replies, err := w.ScheduleMany(t.Context(), list)
		for _, r := range replies {
			err = errors.Join(err, r.Err)
		}
		if err != nil {
			t.Fatal(err)
		}

		w.Advance(150 * time.Minute)
		if _, err := w.Cancel(t.Context(), "app:t:t:a"); err != nil {
			t.Fatal(err)
		}

		w.Advance(24 * time.Hour)
		if len(at) != 2 || at[0] != time.Hour || at[1] != 2*time.Hour {
			t.Errorf("handled at %v, want 1h, 2h", at)
		}
	})
}

// An emulated Redis runs the scripts of ordered routes: the interpreter that it has assigns several variables in another
// order than Redis's if one of them is read too.
func TestOrderHandlesABusinessIDInTurn(t *testing.T) {
	workertest.Run(t, func(t *testing.T, w *workertest.Worker) {
		var got []string
		w.Handle("shop:orders", func(_ context.Context, n *worker.Notice) error {
			got = append(got, n.Key)
			if n.Key == "shop:orders:paid:O1" && n.Attempt == 1 {
				return errors.New("not yet")
			}
			return nil
		}, worker.Order(), worker.Retry(time.Minute))
		var list []worker.Request
		for k, kind := range []string{"created", "paid", "shipped"} {
			list = append(list, worker.Request{Key: "shop:orders:" + kind + ":O1", Delay: time.Duration(k) * time.Second})
		}
		if _, err := w.ScheduleMany(t.Context(), list); err != nil {
			t.Fatal(err)
		}

		w.Advance(time.Hour)
		want := []string{"shop:orders:created:O1", "shop:orders:paid:O1", "shop:orders:paid:O1", "shop:orders:shipped:O1"}
		if !slices.Equal(got, want) {
			t.Errorf("handled %q, want %q", got, want)
		}
	})
}

func TestWorkerThatNeverAdvancesEnds(t *testing.T) {
	workertest.Run(t, func(*testing.T, *workertest.Worker) {})
	workertest.Run(t, func(t *testing.T, w *workertest.Worker) {
		if _, err := w.Find(t.Context(), "app:t:t:1"); !errors.Is(err, worker.ErrNotFound) {
			t.Errorf("%v, want ErrNotFound", err)
		}
	})
}
