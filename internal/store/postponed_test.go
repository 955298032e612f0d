package store

import (
	"fmt"
	"testing"
	"time"

	"notifier/internal/notice"
)

// The score tells the next claim, whichever instance makes it, what a postponed notice waited
// for, and writes nothing into the record: with a timer, and without one, which is due at once.
func TestPostponementTellsItsCause(t *testing.T) {
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
			if hasTimer(score) != (after > 0) || int64(score) != got.Due.UnixMilli() {
				t.Errorf("%s after %s: score %f, told %s", held, after, score, got.Due)
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

// due waits until an instant has come by Redis's clock.
func (s *Store) due(t *testing.T, at time.Time) {
	t.Helper()
	for now := (time.Time{}); now.Before(at); {
		var err error
		if now, err = s.Now(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}
