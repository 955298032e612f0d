package store

import (
	"errors"
	"testing"
	"time"

	"notifier/internal/notice"
)

// finish ends the key's notice and reads it.
func (s *Store) finish(t *testing.T, key string, e Ending) Found {
	t.Helper()
	c := s.take(t, key, "t")
	c.Add(notice.Attempt{Number: c.AttemptsMade + 1, At: time.Now()})
	if e == EndDead {
		c.Reason = notice.ReasonGone
	}
	s.end(t, Settlement{Claim: c, Ending: e})
	f, err := s.Find(t.Context(), prefix, key)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func (s *Store) resend(t *testing.T, f Found) Change {
	t.Helper()
	c, err := s.Resend(t.Context(), f, notice.Expiry{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestResendKeepsIDAndAttempts(t *testing.T) {
	t.Parallel()
	for _, end := range []Ending{EndDelivered, EndDead} {
		s, _ := open(t)
		const k = "app1:a:b:1"
		s.put(t, Request{Key: k, Content: body("1")})
		f := s.finish(t, k, end)
		for n := 1; n <= 2; n++ {
			c := s.resend(t, f)
			if !c.Done || c.State != notice.Scheduled || c.ID() != f.ID() || string(c.Body) != "1" || c.AttemptsMade != n || c.Redriven != n ||
				c.Resend != n || c.Resent != n || c.Endings != n || c.Ending() != n || c.Reason != "" {
				t.Fatalf("resend %d of a notice that ended %s: %+v, %+v", n, end, c, c.Notice)
			}
			if again := s.resend(t, f); again.Done || again.Before != notice.Scheduled {
				t.Fatalf("resent twice: %+v", again)
			}
			if f = s.finish(t, k, EndDelivered); f.State != notice.Delivered || f.Ending() != n+1 {
				t.Fatalf("after resend %d: %+v", n, f)
			}
		}
	}
}

// A redrive ends a notice too: the number of resends is not the number of the ending.
func TestResendsAreCounted(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	const k = "app1:a:b:1"
	s.put(t, Request{Key: k, Content: body("1")})
	s.finish(t, k, EndDead)
	if c, err := s.Amend(t.Context(), prefix, k, Redrive, When{}); err != nil || !c.Done {
		t.Fatal(c, err)
	}
	if c := s.resend(t, s.finish(t, k, EndDead)); !c.Done || c.Resend != 1 || c.Resent != 2 {
		t.Errorf("resent %d times, last after ending %d, want 1 and 2", c.Resend, c.Resent)
	}
}

func TestResendWritesNothingOverAChange(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	const k = "app1:a:b:1"
	s.put(t, Request{Key: k, Content: body("1")})
	old := s.finish(t, k, EndDelivered)
	s.put(t, Request{Key: k, OnDuplicate: Replace, Content: body("2")})
	now := s.finish(t, k, EndDead)
	if c := s.resend(t, old); c.Done || c.State != notice.Dead || string(c.Body) != "2" {
		t.Errorf("over another notice: %+v, %+v", c, c.Notice)
	}

	if c, err := s.Amend(t.Context(), prefix, k, Cancel, When{}); err != nil || !c.Done {
		t.Fatal(c, err)
	}
	if c := s.resend(t, now); c.Done || c.Before != notice.Cancelled {
		t.Errorf("over a cancellation: %+v", c)
	}
	if f, err := s.Find(t.Context(), prefix, k); err != nil || f.Ending() != 2 {
		t.Errorf("a dead letter that was cancelled: ending %d, %v, want 2", f.Ending(), err)
	}
}

func TestResendLeavesTimersOfProducers(t *testing.T) {
	t.Parallel()
	s, srv := open(t)
	s.Timers.adopts = func(string) bool { return true }
	const k = "app1:a:b:1"
	s.put(t, Request{Key: k, Content: body("1")})
	f := s.finish(t, k, EndDelivered)
	if err := srv.Client().Set(t.Context(), k, "mine", time.Hour).Err(); err != nil {
		t.Fatal(err)
	}
	if c := s.resend(t, f); c.Done || c.Before != notice.Delivered {
		t.Errorf("resent beside a producer's timer: %+v", c)
	}
	if v, err := srv.Client().Get(t.Context(), k).Result(); v != "mine" {
		t.Errorf("the timer holds %q, %v", v, err)
	}
	srv.Client().Del(t.Context(), k)
	if c := s.resend(t, f); !c.Done {
		t.Errorf("not resent without the timer: %+v", c)
	}
}

// A resent dead letter that holds back its successors keeps its position, so that it is first. A resent delivered notice, and a dead
// letter of a route that skips them, get a new position behind the pending notices.
func TestResendInASequence(t *testing.T) {
	const first, second = "app1:shop:created:O1", "app1:shop:paid:O1"
	for _, x := range []struct {
		block bool
		end   Ending
		won   string
	}{{true, EndDead, first}, {true, EndDelivered, second}, {false, EndDead, second}, {false, EndDelivered, second}} {
		s, srv := open(t)
		ctx := t.Context()
		if err := errors.Join(s.Layout.Learn(ctx), s.ordered(ctx, srv.Client(), x.block)); err != nil {
			t.Fatal(err)
		}
		s.put(t, Request{Key: first})
		f := s.finish(t, first, x.end)
		now := s.put(t, Request{Key: second}).Due
		if x.block && x.end == EndDead {
			got, err := s.ClaimKeys(ctx, partition, Lease{"t", lease}, []string{second})
			if err != nil || got.Parked != 1 {
				t.Fatalf("behind a dead letter: %+v, %v", got, err)
			}
		}
		for srv.Client().Time(ctx).Val().UnixMilli() <= now.UnixMilli() { // of two that are due in the same millisecond, the older is first
		}

		if c := s.resend(t, f); !c.Done {
			t.Fatalf("%+v", c)
		}
		got, err := s.ClaimKeys(ctx, partition, Lease{"u", lease}, []string{first, second})
		if err != nil || len(got.Won) != 1 || got.Won[0].Key != x.won {
			t.Errorf("a notice that ended %q was resent, block %v: %+v, %v; want %s first", x.end, x.block, got, err, x.won)
		}
	}
}
