package store

import (
	"errors"
	"testing"
	"time"

	"notifier/internal/notice"
)

// hand lets a consumer have the key's notice, and reads it.
func (s *Store) hand(t *testing.T, key string) Found {
	t.Helper()
	return s.handFor(t, key, time.Minute)
}

func (s *Store) handFor(t *testing.T, key string, wait time.Duration) Found {
	t.Helper()
	c := s.take(t, key, "t")
	c.AwaitsReport = true
	c.Add(notice.Attempt{Number: c.AttemptsMade + 1, At: time.Now()})
	s.end(t, Settlement{Claim: c, Ending: EndHanded, After: wait})
	f, err := s.Find(t.Context(), prefix, key)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// A report that was read just before its notice was replaced must not settle the
// new one, though that awaits the report on an attempt of the same number.
func TestAReportSettlesNoOtherMaking(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	const k = "app1:a:b:1"
	s.put(t, Request{Key: k, Content: body("1")})
	old := s.hand(t, k)
	s.put(t, Request{Key: k, OnDuplicate: Replace, Content: body("2")})
	now := s.hand(t, k)
	for i, f := range []Found{old, now} {
		f.AwaitsReport = false
		if got := s.end(t, Settlement{Claim: Reported(f), Ending: EndDelivered}); got.Stale != (i == 0) {
			t.Errorf("the report on notice %d: %+v", i+1, got)
		}
		if is, want := s.state(t, k), []notice.State{notice.Claimed, notice.Delivered}[i]; is != want {
			t.Errorf("after the report on notice %d it is %s, want %s", i+1, is, want)
		}
	}
}

// The time for a report ends in an outage. Until the notice is claimed for that, the report
// settles it, and afterwards it does not.
func TestReportAfterItsTimeSettlesTheNotice(t *testing.T) {
	t.Parallel()
	for _, swept := range []bool{false, true} {
		s, _ := open(t)
		const k = "app1:a:b:1"
		s.put(t, Request{Key: k, Content: body("1")})
		f := s.handFor(t, k, 5*time.Millisecond)
		for end := time.Now().Add(10 * time.Second); f.State == notice.Claimed && time.Now().Before(end); {
			var err error
			if f, err = s.Find(t.Context(), prefix, k); err != nil {
				t.Fatal(err)
			}
		}
		if f.State != notice.Scheduled || !f.AwaitsReport {
			t.Fatalf("%+v", f)
		}
		want := notice.Delivered
		if swept {
			s.take(t, k, "t2")
			want = notice.Claimed
		}
		f.AwaitsReport = false
		if got := s.end(t, Settlement{Claim: Reported(f), Ending: EndDelivered}); got.Stale != swept {
			t.Errorf("swept %v: %+v", swept, got)
		}
		if is := s.state(t, k); is != want {
			t.Errorf("swept %v: it is %s, want %s", swept, is, want)
		}
	}
}

// A report frees the sequence also where the cancelled notice was in an old shard. Reports with another id, or on another
// attempt, free nothing.
func TestReportFreesItsSequenceInAnOldShard(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	ctx := t.Context()
	const first, second = "app1:shop:created:O1", "app1:shop:paid:O1"
	if err := errors.Join(s.Layout.Learn(ctx), s.Layout.AddOrdered(ctx, []string{prefix})); err != nil {
		t.Fatal(err)
	}
	s.put(t, Request{Key: first})
	s.put(t, Request{Key: second})
	f := s.hand(t, first)
	s.grow(t, 1)
	if c, err := s.Amend(ctx, prefix, first, Cancel, When{}); err != nil || !c.Done {
		t.Fatalf("%+v, %v", c, err)
	}
	other := notice.Notice{Key: first, Made: f.Made + 1}
	for _, x := range []struct {
		id      string
		attempt int
		won     int
	}{{other.ID(), 1, 0}, {f.ID(), 2, 0}, {f.ID(), 1, 1}} {
		if err := s.FreeReported(ctx, prefix, first, x.id, x.attempt); err != nil {
			t.Fatal(err)
		}
		got, err := s.ClaimKeys(ctx, partition, Lease{"u", lease}, []string{second})
		if err != nil || len(got.Won) != x.won {
			t.Errorf("after a report on attempt %d: %+v, %v; want %d won", x.attempt, got, err, x.won)
		}
	}
}

// Reopen overwrote a notice that had changed after it was read.
func TestReopenWritesNothingOverAChange(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	const k = "app1:a:b:1"
	deliver := func(text string) Found {
		t.Helper()
		s.put(t, Request{Key: k, OnDuplicate: Replace, Content: body(text)})
		c := s.take(t, k, "t")
		c.Add(notice.Attempt{Number: 1, At: time.Now()})
		s.end(t, Settlement{Claim: c, Ending: EndDelivered})
		f, err := s.Find(t.Context(), prefix, k)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	reopen := func(f Found, e Ending) Change {
		t.Helper()
		n := *f.Notice
		n.Attempts = []notice.Attempt{{Number: 1, Reason: notice.ReasonRejected}}
		if e == EndDead {
			n.Reason = notice.ReasonRejected
		}
		c, err := s.Reopen(t.Context(), f, Settlement{Claim: Claim{Notice: &n}, Ending: e, After: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	old := deliver("1")
	now := deliver("2")
	for _, e := range []Ending{EndRetry, EndDead} {
		if c := reopen(old, e); c.Done || c.State != notice.Delivered || string(c.Body) != "2" {
			t.Errorf("%q: %+v, %+v", e, c, c.Notice)
		}
	}
	if c := reopen(now, EndRetry); !c.Done || c.State != notice.Scheduled || string(c.Body) != "2" ||
		c.Attempts[0].Reason != notice.ReasonRejected ||
		c.Due.Before(time.Now().Add(50*time.Minute)) {
		t.Errorf("%+v, %+v", c, c.Notice)
	}
	if c := reopen(now, EndRetry); c.Done || c.Before != notice.Scheduled {
		t.Errorf("opened twice: %+v", c)
	}
	if c := reopen(deliver("3"), EndDead); !c.Done || c.State != notice.Dead || c.Notice.Reason != notice.ReasonRejected ||
		string(c.Body) != "3" {
		t.Errorf("%+v, %+v", c, c.Notice)
	}
	if p, err := s.List(t.Context(), Query{Routes: []string{prefix}, Limit: 10}); err != nil || len(p.Items) != 1 ||
		p.Items[0].State != notice.Dead {
		t.Errorf("%+v, %v", p, err)
	}
}
