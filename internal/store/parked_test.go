package store

import (
	"errors"
	"testing"
	"time"
)

// Counts has the number of parked notices of an ordered route, and the longest wait. Without an ordered route
// it does not read them.
func TestCountsOfParkedNotices(t *testing.T) {
	s, srv := open(t)
	ctx, c := t.Context(), srv.Client()
	count := func() Counts {
		t.Helper()
		all, _, err := s.Counts(ctx, []string{prefix})
		if err != nil {
			t.Fatal(err)
		}
		return all[0]
	}
	if err := errors.Join(s.Layout.Learn(ctx), s.ordered(ctx, c, false)); err != nil {
		t.Fatal(err)
	}
	s.park(t, "app1:shop:created:O1", "app1:shop:paid:O1", "app1:shop:refunded:O1")
	if n := count(); n.Ordered || n.Parked > 0 || n.LongestWait > 0 {
		t.Errorf("not known to be ordered: %+v", n)
	}

	if err := s.Layout.AddOrdered(ctx, []string{prefix}); err != nil {
		t.Fatal(err)
	}
	c.ZIncrBy(ctx, s.space.Waiting(partition), -60_000, "app1:shop:paid:O1")
	if n := count(); !n.Ordered || n.Parked != 2 || n.Waiting() != 2 || n.LongestWait < time.Minute || n.LongestWait > time.Hour {
		t.Errorf("%+v", n)
	}
	head := s.take(t, "app1:shop:created:O1", "t")
	if n := count(); n.Pending != 3 || n.Due != [3]int64{} || !n.NextDue.IsZero() {
		t.Errorf("one is in flight and the others are parked: %+v", n)
	}
	s.end(t, Settlement{Claim: head, Ending: EndDelivered})
	if n := count(); n.Parked != 1 || n.LongestWait >= time.Minute+30*time.Second {
		t.Errorf("after the delivery of the head: %+v", n)
	}
	if err := s.Layout.Pause(ctx, prefix); err != nil {
		t.Fatal(err)
	}
	if n := count(); n.Overdue != 1 || n.Waiting() != 1 {
		t.Errorf("paused: %+v", n)
	}
}
