package ui_test

import (
	"testing"
	"time"

	"notifier/internal/mask"
	"notifier/internal/notice"
	"notifier/internal/receivers"
	"notifier/internal/store"
	"notifier/internal/ui"
)

// Problems show no masked content: not the answers of dead letters, not the secrets of their addresses.
func TestProblemsShowNoMaskedContent(t *testing.T) {
	s := newSite(t)
	now := time.Now().UTC()
	rules, err := mask.New(true, "")
	if err != nil {
		t.Fatal(err)
	}
	s.mask = rules
	s.health = &physician{routes: []receivers.RouteHealth{{Prefix: "app1:orders", Counted: now, Receivers: []receivers.Health{
		{Name: "shop.example:443", Since: now.Add(-time.Hour), Failures: 9, LastAttempt: now, Status: 500, Reason: "status_5xx", Waiting: 2}}}}}
	s = s.as(ui.Visitor{})
	s.dead("app1:orders:paid:1", "https://me:secretpass@shop.example/?pin=secretquery", notice.ReasonStatus5xx, "secretanswer")
	for _, path := range []string{"/ui/", "/ui/dead", "/ui/dead/group?route=orders&reason=status_5xx&status=500", "/ui/receivers",
		"/ui/receivers/shop.example:443"} {
		s.get(path).is(200).says("HTTP 500").saysNot("secret")
	}
	s.get("/ui/").says("orders: 1 dead letter in the last hour, HTTP 500", "shop.example: failing since", "2 waiting")
}

// A receiver that fails and is paused is both: two problems on Now, both states on its page, and one match of each filter.
func TestPausedReceiverThatFails(t *testing.T) {
	s := newSite(t)
	now := time.Now().UTC()
	s.health = &physician{routes: []receivers.RouteHealth{{Prefix: "app1:orders", Counted: now, Receivers: []receivers.Health{
		{Name: "shop.example:443", Since: now.Add(-time.Hour), Failures: 9, LastAttempt: now, Status: 500, Reason: "status_5xx", Waiting: 2,
			Next: now.Add(time.Hour)},
		{Name: "other.example:443", Since: now.Add(-time.Hour), Failures: 9, LastAttempt: now, Status: 500, Reason: "status_5xx"}}}}}
	s = s.as(ui.Visitor{})
	if err := s.engine.PauseReceiver(t.Context(), "me", receivers.Receiver{Host: "shop.example"}, time.Time{}, 0); err != nil {
		t.Fatal(err)
	}
	s.get("/ui/").is(200).says("1 receiver paused", "shop.example: failing since", "2 waiting · next attempt when it resumes",
		"other.example: failing since")
	s.get("/ui/receivers/shop.example:443").is(200).says("paused", "failing", "HTTP 500, 9 in a row", "2 · next attempt when it resumes")
	for _, state := range []string{"failing", "paused"} {
		s.get("/ui/receivers?state=" + state).is(200).says("shop.example:443 orders failing")
	}
	s.get("/ui/receivers?state=paused").saysNot("other.example:443 orders failing")
	if _, err := s.engine.ResumeReceiver(t.Context(), receivers.Receiver{Host: "shop.example"}, 0); err != nil {
		t.Fatal(err)
	}
	s.as(ui.Visitor{}).get("/ui/").is(200).says("shop.example: failing since", "next attempt ").saysNot("receiver paused", "when it resumes")
}

// The pages name the rule that has paused a receiver, in the list, on its page and on Now. A pause of a client names none.
func TestPagesNameTheRuleOfAPause(t *testing.T) {
	s := newSite(t)
	now := time.Now().UTC()
	s.health = &physician{routes: []receivers.RouteHealth{{Prefix: "app1:orders", Counted: now, Receivers: []receivers.Health{
		{Name: "shop.example:443", Since: now.Add(-time.Hour), Failures: 9, LastAttempt: now, Status: 401, Reason: "status_4xx"}}}}}
	s = s.as(ui.Visitor{})
	_, err := s.engine.Store().Layout.SetReceiver(t.Context(), store.ReceiverChange{Field: "host/shop.example:443/app1:orders",
		Value: `,"rule":"ON_STATUS 401","since":1}`})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/ui/", "/ui/receivers", "/ui/receivers/shop.example:443"} {
		s.get(path).is(200).says("by rule ON_STATUS 401")
	}
	list := s.get("/ui/receivers").says("paused by rule ON_STATUS 401 0 held").saysNot("Paused and limited receivers")
	if forms := list.forms("/ui/receivers/resume"); len(forms) != 1 || forms[0]["host"]+forms[0]["prefix"] != "shop.example:443app1:orders" {
		t.Errorf("the list of receivers has the forms %v, want one that resumes the receiver", forms)
	}
	s.get("/ui/receivers?q=none").says("Paused and limited receivers", "by rule ON_STATUS 401") // the list does not have it
	if err := s.engine.PauseReceiver(t.Context(), "me", receivers.Receiver{Prefix: "app1:orders", Host: "shop.example:443"}, time.Time{},
		0); err != nil {
		t.Fatal(err)
	}
	s.as(ui.Visitor{}).get("/ui/receivers").is(200).says("paused").saysNot("by rule")
}
