package dispatch

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/store"
)

// expires makes the notices of the fake expire in d.
func (s *fakeStore) expires(d time.Duration) {
	s.do(func() {
		for _, e := range s.entries {
			e.n.Expires = time.Now().Add(d)
		}
	})
}

// Expired notices need neither a slot nor a route that runs.
func TestExpiredNoticesNeedNoSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, w := newFakeStore(), taking(time.Hour/2)
		s.put("a", 0, 2)
		o := options(s, w, 2, testRoute("a", 2))
		o.Routes[0].Timeout = time.Hour
		d := begin(o)
		d.Sweep(keys.Partition{Prefix: "a"})
		after(time.Second)
		s.put("a", 0, 3*maxBatch) // both slots are taken
		d.SetPaused(func(keys.Partition) bool { return true })
		s.expires(time.Minute)
		d.Expire(keys.Partition{Prefix: "a"})
		after(time.Second)
		if n := s.endings()[store.EndDead]; n != 0 {
			t.Fatalf("%d are dead before they expire", n)
		}

		after(time.Minute)
		d.Expire(keys.Partition{Prefix: "a"})
		after(time.Second)
		if n := s.endings()[store.EndDead]; n != 3*maxBatch || d.InFlight("a") != 2 {
			t.Errorf("%d are dead, want %d; %d are in flight", n, 3*maxBatch, d.InFlight("a"))
		}

		s.do(func() {
			for _, x := range s.ended {
				if n := x.Claim.Notice; n.Reason != notice.ReasonExpired || n.AttemptsMade != 0 {
					t.Fatalf("dead as %q after %d attempts", n.Reason, n.AttemptsMade)
				}
			}
		})
		after(time.Hour)
		if n := s.endings()[store.EndDelivered]; n != 2 || w.count() != 2 {
			t.Errorf("%d delivered in %d calls: a running attempt decides", n, w.count())
		}

		drain(t, d)
		quiet(t, d)
	})
}

func TestNoCallBeginsAfterTheExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, w := newFakeStore(), taking(0)
		s.put("a", 0, 1)
		s.expires(0)
		d := begin(options(s, w, 2, testRoute("a", 2)))
		d.Sweep(keys.Partition{Prefix: "a"})
		after(time.Second)
		if n := s.endings()[store.EndDead]; n != 1 || w.count() != 0 {
			t.Errorf("%d dead, %d calls", n, w.count())
		}

		drain(t, d)
		quiet(t, d)
	})
}

// An attempt that ends after the expiry decides: a failure is the last one.
func TestAnAttemptDecidesAtItsEnd(t *testing.T) {
	for _, x := range []struct {
		name   string
		result notice.Result
		want   store.Ending
		reason notice.Reason
		made   int
	}{
		{"delivered", notice.DeliveredResult(200), store.EndDelivered, "", 1},
		{"retry", notice.RetryResult(notice.ReasonTimeout, ""), store.EndDead, notice.ReasonExpired, 1},
		{"dead", notice.DeadResult(notice.ReasonGone, ""), store.EndDead, notice.ReasonGone, 1},
		{"locked", notice.DeferredResult(notice.ReasonLocked, time.Minute, ""), store.EndDead, notice.ReasonExpired, 0},
		{"busy", notice.DeferredResult(notice.ReasonBusy, time.Minute, ""), store.EndDead, notice.ReasonExpired, 0},
	} {
		t.Run(x.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newFakeStore()
				w := newWork(func(context.Context, *notice.Notice) notice.Result {
					time.Sleep(2 * time.Second)
					return x.result
				})
				s.put("a", 0, 1)
				s.expires(time.Second)
				d := begin(options(s, w, 2, testRoute("a", 2)))
				d.Sweep(keys.Partition{Prefix: "a"})
				after(3 * time.Second)
				s.do(func() {
					if len(s.ended) != 1 || s.ended[0].Ending != x.want || s.ended[0].Claim.Reason != x.reason ||
						s.ended[0].Claim.AttemptsMade != x.made {
						t.Errorf("%+v", s.ended)
					}
				})
				drain(t, d)
				quiet(t, d)
			})
		})
	}
}

// A failing Redis is asked again, and not all the time.
func TestExpiriesAreRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeStore()
		s.put("a", 0, 1)
		s.expires(0)
		s.do(func() { s.claim = errDown })
		d := begin(options(s, taking(0), 2, testRoute("a", 2)))
		for range 100 {
			d.Expire(keys.Partition{Prefix: "a"})
			after(time.Millisecond)
		}

		s.do(func() {
			s.calls = slices.DeleteFunc(s.calls, func(call string) bool { return !strings.HasPrefix(call, "expired ") })
			if n := len(s.calls); n < 2 || n > 3 {
				t.Errorf("%d calls in 100 ms", n)
			}

			s.claim = nil
		})
		after(time.Second)
		d.Expire(keys.Partition{Prefix: "a"})
		after(time.Second)
		if n := s.endings()[store.EndDead]; n != 1 {
			t.Errorf("%d are dead", n)
		}

		drain(t, d)
		quiet(t, d)
	})
}
