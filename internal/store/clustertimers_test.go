package store

import (
	"testing"
	"time"

	"notifier/internal/notice"
)

// In a cluster, a notice's own timer is deleted when the notice becomes due now, and stays as long as the score says that there is one.
func TestOwnTimerFollowsItsNoticeInCluster(t *testing.T) {
	t.Parallel()
	c, _, _ := lacking(t)
	ctx, s := t.Context(), inCluster(c, 1, prefix)
	if err := s.Layout.Learn(ctx); err != nil {
		t.Fatal(err)
	}
	expect := func(what, key string, due time.Time) {
		t.Helper()
		s.Timers.Flush()
		want := time.Duration(-2) // no key
		if !due.IsZero() {
			want = time.Duration(due.UnixMilli()-1) * time.Millisecond
		}
		if at := c.PExpireTime(ctx, key).Val(); at != want {
			t.Errorf("%s: the timer expires at %d, want %d", what, at, want)
		}
	}
	const key = "app1:a:b:1"
	r := s.put(t, Request{Key: key, Delay: time.Hour})
	expect("schedule", key, r.Due)
	expect("reschedule", key, s.change(t, key, Reschedule, When{Delay: 2 * time.Hour}).Due)
	r = s.put(t, Request{Key: key, Delay: 3 * time.Hour, OnDuplicate: Replace})
	expect("replace", key, r.Due)
	s.change(t, key, Fire, When{})
	expect("fire", key, time.Time{})
	r = s.put(t, Request{Key: key, Delay: time.Hour, OnDuplicate: Replace})
	expect("replace again", key, r.Due)
	s.put(t, Request{Key: key, OnDuplicate: Replace})
	expect("replace with a notice due now", key, time.Time{})

	const postponed = "app1:a:b:2"
	s.put(t, Request{Key: postponed})
	x := s.end(t, Settlement{Claim: s.take(t, postponed, "t"), Ending: EndPostponed, Held: notice.HeldBreaker, After: time.Hour})
	expect("postpone", postponed, x.Due)
	f, err := s.Find(ctx, prefix, postponed)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := s.Readdress(ctx, f, f.Readdress(notice.Address{URL: "https://new.example/b"}), nil); err != nil || !got.Done {
		t.Fatalf("%+v, %v", got, err)
	}
	expect("readdress", postponed, x.Due)
	s.change(t, postponed, Cancel, When{})
	expect("cancel", postponed, time.Time{})
}
