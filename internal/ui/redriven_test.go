package ui_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/ui"
)

// TestRedriveShowsItsProgress checks the preview of a redrive at a rate, and the counts of its notices while they are pending, dead again
// and delivered. Other notices of the route do not count.
func TestRedriveShowsItsProgress(t *testing.T) {
	s := newSite(t)
	for i := range 4 {
		s.dead(fmt.Sprintf("app1:orders:paid:t%d", i), "https://shop.example/", notice.ReasonTimeout, "slow")
	}
	s.dead("app1:orders:paid:g", "https://shop.example/", notice.ReasonGone, "left")
	s.keep("app1:orders:paid:p", notice.Content{URL: "https://shop.example/"}, time.Hour)
	s.get("/ui/dead/group?reason=timeout&route=orders").is(200).says("at once", "1/s: over 4s", "100/s: over 0")
	a := s.post("/ui/dead/redrive", "route", "orders", "reason", "timeout", "rate", "1/s").is(303)
	to := a.Header.Get("Location")
	first := s.get(to).is(200).says("4 notices of orders scheduled again, at 1/s.", "pending 4 the last one due", "dead again 0",
		"delivered or cancelled 0")
	if !strings.Contains(first.body, `http-equiv="refresh" content="5"`) {
		t.Error("the page of pending notices is not loaded again")
	}
	s.engine.Move("app1:orders:paid:t0", notice.Dead, notice.ReasonGone)
	s.engine.Move("app1:orders:paid:t1", notice.Delivered, "")
	s.get(to).is(200).says("pending 2", "dead again 1", "delivered or cancelled 1")
	s.get("/ui/audit").says("4 dead letters, timeout, at 1/s")
	s.as(ui.Visitor{Prefix: "app1:orders:other"}).get(to).is(200).says("pending 0", "dead again 0").saysNot("paid")
	s.as(ui.Visitor{Prefix: "app2"}).get(to).is(404)
	for _, bad := range []string{"job=x", "n=-1", "n=x", "rate=fast"} {
		s.get(to + "&" + bad).is(200) // the first value counts
		s.get("/ui/dead/redriven?route=orders&reason=timeout&" + bad).is(404)
	}
}

// TestRedriveOfASequenceShowsItsProgress checks a route whose dead letters block their sequence: notices that wait for another one of
// their sequence are pending.
func TestRedriveOfASequenceShowsItsProgress(t *testing.T) {
	s := newSite(t, func(table *route.Table) {
		rt := table.Prefix("app1:orders")
		rt.Order = route.OrderBlock
	})
	for i := range 3 {
		s.dead(fmt.Sprintf("app1:orders:paid:seq~%d", i), "https://shop.example/", notice.ReasonTimeout, "slow")
	}
	a := s.post("/ui/dead/redrive", "route", "orders", "rate", "100/s").is(303)
	s.get(a.Header.Get("Location")).is(200).says("3 notices of orders scheduled again, at 100/s.", "pending 3", "dead again 0")
}
