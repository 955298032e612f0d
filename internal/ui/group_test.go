package ui_test

import (
	"strings"
	"testing"
	"time"

	"notifier/internal/notice"
	"notifier/internal/store"
)

// The rows of a group say how late the last attempt of a dead letter began.
func TestGroupShowsLateness(t *testing.T) {
	s := newSite(t)
	now := time.Now().UTC().Truncate(time.Millisecond)
	for key, late := range map[string]time.Duration{"app1:orders:paid:late": 95 * time.Second, "app1:orders:paid:punctual": 0} {
		n := &notice.Notice{Key: key, Route: "app1:orders", Made: notice.MadeAt(now.Add(-time.Hour)), Due: now.Add(-10*time.Minute - late),
			Reason: notice.ReasonTimeout, Content: notice.Content{URL: "https://shop.example/x"}}
		n.Add(notice.Attempt{Number: 1, At: now.Add(-10 * time.Minute), Duration: time.Second, Reason: notice.ReasonTimeout})
		s.engine.Add(store.Found{Notice: n, State: notice.Dead, SettledAt: now.Add(-9 * time.Minute)})
	}
	page := s.get("/ui/dead/group?route=orders&reason=timeout").is(200).says("app1:orders:paid:punctual", "ago · 1m35s late")
	if n := strings.Count(textOf(page.tree), " late"); n != 1 {
		t.Errorf("%d rows are late, want one", n)
	}
}

// A reason is shown once, also where it is a part of the answer.
func TestDeadLettersShowTheReasonOnce(t *testing.T) {
	s := newSite(t)
	s.deadOf("app1:orders:paid:1", "https://shop.example/x", notice.Cause{Reason: "ack_mismatch", Status: 200}, "")
	page := s.get("/ui/dead").is(200).says("HTTP 200, ack_mismatch")
	if n := strings.Count(textOf(page.tree), "ack_mismatch"); n != 1 {
		t.Errorf("the reason is there %d times", n)
	}
}
