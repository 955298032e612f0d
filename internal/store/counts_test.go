package store

import (
	"fmt"
	"testing"
	"time"
)

// The next due time was the first score of the shadow, which may be the lease of a running attempt.
func TestNextDueIsNoLease(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	count := func() Counts {
		t.Helper()
		c, _, err := s.Counts(t.Context(), []string{"none", prefix})
		if err != nil || len(c) != 2 || c[0] != (Counts{Prefix: "none", RepeatWindow: time.Hour}) {
			t.Fatalf("%+v, %v", c, err)
		}
		return c[1]
	}
	for i := range 3 {
		k := fmt.Sprintf("app1:a:b:%d", i)
		s.put(t, Request{Key: k})
		s.take(t, k, "t")
	}
	if c := count(); c.Pending != 3 || c.Overdue != 0 || !c.NextDue.IsZero() {
		t.Errorf("three claimed: %+v", c)
	}
	later := s.put(t, Request{Key: "app1:a:b:later", Delay: time.Hour})
	if c := count(); c.Pending != 4 || !c.NextDue.Equal(later.Due) {
		t.Errorf("one more in an hour, %s: %+v", later.Due, c)
	}
	now := s.put(t, Request{Key: "app1:a:b:now"})
	if c := count(); c.Due != [3]int64{} {
		t.Errorf("three leases and a notice in an hour: %+v", c)
	}
	for i, delay := range []time.Duration{50 * time.Second, 4 * time.Minute, 14 * time.Minute} {
		s.put(t, Request{Key: fmt.Sprintf("app1:a:b:soon%d", i), Delay: delay})
	}
	if c := count(); c.Due != [3]int64{1, 2, 3} || c.Overdue != 1 {
		t.Errorf("three more in 15 minutes: %+v", c)
	}
	if c := count(); c.Overdue != 1 || !c.NextDue.Equal(now.Due) {
		t.Errorf("one more now, %s: %+v", now.Due, c)
	}
	if err := s.Layout.Pause(t.Context(), prefix); err != nil {
		t.Fatal(err)
	}
	if c := count(); !c.Paused {
		t.Errorf("paused: %+v", c)
	}
}
