package dispatch

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/notice"
	"notifier/internal/store"
)

func until(d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), d)
}

func TestDrainWaitsForHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, w := newFakeStore(), taking(7*time.Second)
		s.put("a", 0, 20)
		d := begin(options(s, w, 10, testRoute("a", 8)))
		synctest.Wait()
		ctx, cancel := until(25 * time.Second)
		defer cancel()
		from := time.Now()
		if left := d.Drain(ctx, 3*time.Second); left != 0 || time.Since(from) != 7*time.Second {
			t.Errorf("%d left after %s", left, time.Since(from))
		}
		if w.calls != 7 || s.endings()[store.EndDelivered] != 7 {
			t.Errorf("%d calls, %v; want the 7 that had begun", w.calls, s.endings())
		}
		quiet(t, d)
	})
}

func TestDrainCancelsAndDefersSlowHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeStore()
		w := newWork(func(ctx context.Context, _ *notice.Notice) notice.Result {
			<-ctx.Done()
			return notice.RetryResult(notice.ReasonTimeout, "cut short")
		})
		s.put("a", 0, 3)
		r := testRoute("a", 8)
		r.Timeout = time.Hour
		d := begin(options(s, w, 10, r))
		synctest.Wait()
		ctx, cancel := until(25 * time.Second)
		defer cancel()
		from := time.Now()
		if left := d.Drain(ctx, 3*time.Second); left != 0 || time.Since(from) != 25*time.Second {
			t.Errorf("%d left after %s", left, time.Since(from))
		}
		if s.endings()[store.EndPostponed] != 3 {
			t.Errorf("%v, want all deferred", s.endings())
		}
		for _, e := range s.ended {
			if e.After != 0 || e.Claim.AttemptsMade != 0 || !e.KeepRecord {
				t.Errorf("%+v: want due at once, no attempt used", e)
			}
		}
		quiet(t, d)
	})
}

// A handler that reaches its own timeout during a drain has failed; the drain did not cut it short.
func TestTimeoutDuringDrainIsAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeStore()
		w := newWork(func(ctx context.Context, _ *notice.Notice) notice.Result {
			<-ctx.Done()
			return notice.RetryResult(notice.ReasonTimeout, "slow")
		})
		s.put("a", 0, 1)
		d := begin(options(s, w, 10, testRoute("a", 8)))
		synctest.Wait()
		ctx, cancel := until(25 * time.Second)
		defer cancel()
		if left := d.Drain(ctx, 3*time.Second); left != 0 || s.endings()[store.EndRetry] != 1 {
			t.Errorf("%d left, %v", left, s.endings())
		}
	})
}

func TestDrainReleasesClaimsNotStarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, w := newFakeStore(), taking(0)
		s.put("a", 0, 4)
		s.entries[1].lapses = 1
		s.entries[2].n.AwaitsReport = true
		s.entries[2].n.Add(notice.Attempt{Number: 1})
		lapsed, handed := s.entries[1].n, s.entries[2].n
		s.slow = make(chan struct{})
		d := begin(options(s, w, 10, testRoute("a", 8)))
		synctest.Wait() // the claim call is under way
		go func() {
			time.Sleep(time.Second)
			close(s.slow)
		}()
		ctx, cancel := until(25 * time.Second)
		defer cancel()
		if left := d.Drain(ctx, 3*time.Second); left != 0 {
			t.Errorf("%d left", left)
		}
		if w.calls != 0 || s.endings()[store.EndPostponed] != 3 || s.endings()[store.EndRetry] != 1 {
			t.Errorf("%d calls, %v", w.calls, s.endings())
		}
		if lapsed.AttemptsMade != 1 || len(lapsed.Attempts) != 1 {
			t.Errorf("the expired lease is not counted: %+v", lapsed)
		}
		if handed.AttemptsMade != 1 || handed.Attempts[0].Reason != notice.ReasonUnreported {
			t.Errorf("the attempt without a report is not counted: %+v", handed)
		}
		quiet(t, d)
	})
}

func TestDrainAbandonsFailingSettles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, w := newFakeStore(), taking(time.Second)
		s.put("a", 0, 5)
		d := begin(options(s, w, 10, testRoute("a", 8)))
		synctest.Wait()
		s.do(func() { s.settle = errDown })
		ctx, cancel := until(25 * time.Second)
		defer cancel()
		from := time.Now()
		if left := d.Drain(ctx, 3*time.Second); left != 5 || time.Since(from) != 28*time.Second {
			t.Errorf("%d left after %s, want 5 after 28 s", left, time.Since(from))
		}
		synctest.Wait() // and no goroutine stays: synctest.Test would not return
	})
}

// A handler that ignores its context does not block the drain, and its late result is still settled
// if Redis is available.
func TestDrainReturnsDespiteAHangingHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, w := newFakeStore(), taking(time.Hour)
		s.put("a", 0, 1)
		d := begin(options(s, w, 10, testRoute("a", 8)))
		synctest.Wait()
		ctx, cancel := until(25 * time.Second)
		defer cancel()
		from := time.Now()
		if left := d.Drain(ctx, 3*time.Second); left != 1 || time.Since(from) != 28*time.Second {
			t.Errorf("%d left after %s", left, time.Since(from))
		}
		after(2 * time.Hour)
		if s.endings()[store.EndDelivered] != 1 {
			t.Errorf("%v", s.endings())
		}
	})
}
