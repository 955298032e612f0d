package store

import (
	"fmt"
	"testing"
	"time"

	"notifier/internal/notice"
)

// A later claim by any instance reads the cause of a postponement from the score. The record is
// unchanged. That holds with a timer, and without one, when the notice is due at once.
func TestPostponementTellsItsCause(t *testing.T) {
	t.Parallel()
	s, srv := open(t)
	for i, held := range notice.Helds {
		for _, after := range []time.Duration{0, time.Millisecond, time.Hour} {
			key := fmt.Sprintf("app1:a:b:%d-%s", i, after)
			s.put(t, Request{Key: key})
			record := srv.Client().HGet(t.Context(), s.space.Records(partition), key).Val()
			got := s.end(t, Settlement{Claim: s.take(t, key, "t1"), Ending: EndPostponed, After: after, Held: held, KeepRecord: true})
			if now := srv.Client().HGet(t.Context(), s.space.Records(partition), key).Val(); now != record {
				t.Errorf("%s: the record was %s, is %s", held, record, now)
			}
			score := srv.Client().ZScore(t.Context(), s.space.Shadow(partition), key).Val()
			if HasTimer(score) != (after > 0) || int64(score) != got.Due.UnixMilli() {
				t.Errorf("%s after %s: score %f, result %s", held, after, score, got.Due)
			}
			if after == time.Hour {
				if c, err := s.ClaimKeys(t.Context(), partition, Lease{"t2", lease}, []string{key}); err != nil || c.Stale != 1 {
					t.Errorf("%s: claimed early: %+v, %v", held, c, err)
				}
				continue
			}
			s.due(t, got.Due)
			c := s.take(t, key, "t2")
			if c.Held != held || !c.Attention.Equal(got.Due) || c.Lapses != 0 {
				t.Errorf("%s after %s: claimed as %s, %d lapses, attention %s", held, after, c.Held, c.Lapses, c.Attention)
			}
		}
	}
}

// due waits until an instant has passed by Redis's clock.
func (s *Store) due(t *testing.T, at time.Time) {
	t.Helper()
	for now := (time.Time{}); now.Before(at); {
		var err error
		if now, err = s.w.Now(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// A postponed notice is claimed before its postponement ends by exactly the score that the
// postponement wrote, and its timer is deleted. No other notice is claimed early: no retry,
// whatever score is given, and none that was postponed again, rescheduled or cancelled since.
func TestPostponedNoticeIsClaimedEarlyByItsScoreOnly(t *testing.T) {
	t.Parallel()
	s, srv := open(t)
	c := srv.Client()
	early := func(key, score string) Claimed {
		t.Helper()
		got, err := s.ClaimPostponed(t.Context(), partition, Lease{"t2", lease}, []Postponed{{key, score}})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	postpone := func(key string, ending Ending) Settled {
		s.put(t, Request{Key: key})
		return s.end(t, Settlement{Claim: s.take(t, key, "t1"), Ending: ending, After: time.Hour, Held: notice.HeldBusy,
			KeepRecord: ending == EndPostponed})
	}

	a := postpone("app1:a:b:1", EndPostponed)
	if got := early("app1:a:b:1", a.Score); len(got.Won) != 1 || got.Won[0].Held != notice.HeldBusy || c.Exists(t.Context(),
		"app1:a:b:1").Val() != 0 {
		t.Errorf("by its score %s: %+v, the timer is there %d", a.Score, got, c.Exists(t.Context(), "app1:a:b:1").Val())
	}
	if got := early("app1:a:b:1", a.Score); len(got.Won) != 1 { // its reply was lost
		t.Errorf("the same call again: %+v", got)
	}

	postpone("app1:a:b:2", EndRetry)
	score := c.ZScore(t.Context(), s.space.Shadow(partition), "app1:a:b:2").Val()
	if got := early("app1:a:b:2", fmt.Sprintf("%.17g", score)); got.Stale != 1 || c.Exists(t.Context(), "app1:a:b:2").Val() != 1 {
		t.Errorf("a retry by its score %f: %+v", score, got)
	}

	for i, change := range []func(key string) error{
		func(key string) error {
			_, err := s.Amend(t.Context(), prefix, key, Reschedule, When{Delay: time.Hour})
			return err
		},
		func(key string) error {
			_, err := s.Amend(t.Context(), prefix, key, Cancel, When{})
			return err
		},
	} {
		key := fmt.Sprintf("app1:a:b:c%d", i)
		x := postpone(key, EndPostponed)
		if err := change(key); err != nil {
			t.Fatal(err)
		}
		if got := early(key, x.Score); len(got.Won) != 0 {
			t.Errorf("change %d: claimed early by the score from before: %+v", i, got)
		}
	}
}
