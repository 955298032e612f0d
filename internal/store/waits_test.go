package store

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"notifier/internal/notice"
)

// park schedules notices of an ordered route, and parks all but the first.
func (s *Store) park(t *testing.T, ks ...string) {
	t.Helper()
	for _, k := range ks {
		s.put(t, Request{Key: k})
	}
	got, err := s.ClaimKeys(t.Context(), partition, Lease{"park", lease}, ks[1:])
	if err != nil || got.Parked != len(ks)-1 {
		t.Fatalf("%+v, %v", got, err)
	}
}

// A parked notice shows which notice of its sequence comes first: the one in flight, or else the head. It
// shows no time of its next attempt, because that depends on the other notice.
func TestParkedNoticeShowsWhatItWaitsFor(t *testing.T) {
	s, srv := open(t)
	ctx := t.Context()
	const first, second, third = "app1:shop:created:O1", "app1:shop:paid:O1", "app1:shop:refunded:O1~2"
	if err := errors.Join(s.Layout.Learn(ctx), s.ordered(ctx, srv.Client(), false)); err != nil {
		t.Fatal(err)
	}
	s.park(t, first, second, third)
	check := func(when, key string, waits bool, other string) {
		t.Helper()
		f, err := s.Find(ctx, prefix, key)
		if err == nil {
			err = s.AddWaits(ctx, &f)
		}
		if err != nil || f.Waits != waits || f.WaitsFor != other || waits != f.NextAttemptAt().IsZero() {
			t.Errorf("%s: %s waits %v for %q, next attempt %s, %v", when, key, f.Waits, f.WaitsFor, f.NextAttemptAt(), err)
		}
		page, err := s.List(ctx, Query{Routes: []string{prefix}, Begins: key, Limit: 10})
		if err != nil || len(page.Items) != 1 || page.Items[0].Waits != waits || page.Items[0].WaitsFor != other {
			t.Errorf("%s: the listing has %+v, %v", when, page.Items, err)
		}
	}
	check("parked", first, false, "")
	check("parked", second, true, first)
	check("parked", third, true, first)

	c := s.take(t, first, "t")
	if _, err := s.Amend(ctx, prefix, first, Cancel, When{}); err != nil {
		t.Fatal(err)
	}
	check("the cancelled notice is in flight", second, true, first)
	check("the cancelled notice is in flight", third, true, first)
	s.end(t, Settlement{Claim: c, Ending: EndDelivered})
	check("the next head is due", third, true, second)
	f, err := s.Find(ctx, prefix, second)
	if err = errors.Join(err, s.AddWaits(ctx, &f)); err != nil || f.Waits || f.NextAttemptAt().After(time.Now().Add(time.Minute)) {
		t.Errorf("the head waits %v, next attempt %s, %v", f.Waits, f.NextAttemptAt(), err)
	}
}

// A notice that was unparked after it was read shows its present due time, not the end of its park.
func TestUnparkedNoticeShowsItsPresentScore(t *testing.T) {
	s, srv := open(t)
	ctx := t.Context()
	const first, second = "app1:shop:created:O1", "app1:shop:paid:O1"
	if err := errors.Join(s.Layout.Learn(ctx), s.ordered(ctx, srv.Client(), false)); err != nil {
		t.Fatal(err)
	}
	s.park(t, first, second)
	read, err := s.Find(ctx, prefix, second)
	if err != nil || time.Until(read.NextAttemptAt()) < time.Minute {
		t.Fatalf("%s, %v", read.NextAttemptAt(), err)
	}
	s.end(t, Settlement{Claim: s.take(t, first, "t"), Ending: EndDelivered})
	if err := s.AddWaits(ctx, &read); err != nil || read.Waits || time.Until(read.NextAttemptAt()) > time.Minute {
		t.Errorf("waits %v, next attempt %s, %v", read.Waits, read.NextAttemptAt(), err)
	}
}

// Notices that cannot be parked cost no call.
func TestOnlyPostponedNoticesAreLookedUp(t *testing.T) {
	s, _ := open(t)
	r := s.put(t, Request{Key: "app1:shop:paid:O1", Delay: time.Hour})
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // a call fails
	for _, f := range []Found{r.Found, {}, {Notice: r.Notice, State: notice.Claimed, score: "1.75"}} {
		if err := s.AddWaits(ctx, &f); err != nil {
			t.Errorf("%+v: %v", f, err)
		}
	}
	if err := s.AddWaits(ctx, &Found{Notice: r.Notice, State: notice.Scheduled, score: "1.75"}); err == nil {
		t.Error("a postponed notice is not looked up")
	}
}

// A listing of parked notices has all of them over its pages, the longest wait first, and no other notice.
func TestListOfParkedNotices(t *testing.T) {
	s, srv := open(t)
	ctx := t.Context()
	if err := errors.Join(s.Layout.Learn(ctx), s.ordered(ctx, srv.Client(), false)); err != nil {
		t.Fatal(err)
	}
	s.park(t, "app1:shop:created:O1", "app1:shop:paid:O1", "app1:shop:refunded:O1")
	s.park(t, "app1:shop:created:O2", "app1:shop:paid:O2")
	s.put(t, Request{Key: "app1:shop:paid:O3", Delay: time.Hour})
	srv.Client().ZIncrBy(ctx, s.space.Waiting(partition), -60_000, "app1:shop:paid:O2")
	var got []string
	q := Query{Routes: []string{prefix}, Waiting: true, Limit: 2}
	for more := true; more; more = q.Cursor != "" {
		page, err := s.List(ctx, q)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range page.Items {
			if f.State != notice.Scheduled || !f.Waits || !f.NextAttemptAt().IsZero() || f.Score() == "" {
				t.Errorf("%s is %s, waits %v, next attempt %s, score %q", f.Key, f.State, f.Waits, f.NextAttemptAt(), f.Score())
			}
			got = append(got, f.Key+" for "+f.WaitsFor)
		}
		q.Cursor = page.Cursor
	}
	want := []string{"app1:shop:paid:O2 for app1:shop:created:O2", "app1:shop:paid:O1 for app1:shop:created:O1",
		"app1:shop:refunded:O1 for app1:shop:created:O1"}
	if !slices.Equal(got, want) {
		t.Errorf("listed %q, want %q", got, want)
	}

	q.Cursor, q.Until = "", time.Now().Add(-30*time.Second)
	if page, err := s.List(ctx, q); err != nil || len(page.Items) != 1 {
		t.Errorf("waiting for more than 30 s: %+v, %v", page.Items, err)
	}
}
