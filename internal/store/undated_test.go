package store

import (
	"testing"
	"time"
)

// A record without a due time was due in the year 1.
func TestARecordWithoutADueTimeHasThatOfItsShadow(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	const key = "app1:a:b:c"
	s.put(t, Request{Key: key, Delay: time.Hour})
	if err := s.c.HSet(t.Context(), s.space.Records(partition), key, `{"due":"x"}`).Err(); err != nil {
		t.Fatal(err)
	}
	near := func(what string, f Found, err error, want time.Duration) {
		t.Helper()
		if err != nil || time.Until(f.Due) < want-time.Minute || time.Until(f.Due) > want+time.Minute {
			t.Errorf("%s: due %s, %v", what, f.Due, err)
		}
	}
	f, err := s.Find(t.Context(), prefix, key)
	near("found", f, err, time.Hour)
	c, err := s.Amend(t.Context(), prefix, key, Reschedule, When{Delay: 2 * time.Hour})
	near("rescheduled", c.Found, err, 2*time.Hour)
	c, err = s.Amend(t.Context(), prefix, key, Cancel, When{})
	near("cancelled", c.Found, err, 0)
}
