package ui_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"testing"
	"time"

	"notifier/internal/auth"
	"notifier/internal/fleet"
	"notifier/internal/notice"
	"notifier/internal/problems"
	"notifier/internal/receivers"
	"notifier/internal/ui"
)

// physician is a health in memory.
type physician struct {
	routes []receivers.RouteHealth
	day    receivers.Day
	err    error
}

func (p *physician) Health(context.Context) ([]receivers.RouteHealth, error) { return p.routes, nil }

func (p *physician) ReceiverDay(context.Context, string, string) (receivers.Day, error) {
	return p.day, p.err
}

func TestReceiverPage(t *testing.T) {
	s := newSite(t)
	now := time.Now().UTC()
	hour := now.Truncate(time.Hour)
	h := &physician{routes: []receivers.RouteHealth{{Prefix: "app1:orders", Counted: now.Add(-10 * time.Second), Receivers: []receivers.Health{
		{Name: "shop.example:443", Since: now.Add(-50 * time.Hour), LastSuccess: now.Add(-51 * time.Hour), Failures: 38,
			LastAttempt: now.Add(-time.Minute), Status: 500, Reason: "status_5xx", Waiting: 23, Next: now.Add(5 * time.Minute)},
		{Name: "well.example:443", LastSuccess: now.Add(-time.Hour), LastAttempt: now.Add(-time.Hour), Status: 200}}}},
		day: receivers.Day{Hours: []receivers.Hour{{At: hour.Add(-time.Hour), Attempts: 40, Failed: 30, Mean: 120 * time.Millisecond},
			{At: hour, Attempts: 10, Failed: 8, Mean: 20 * time.Millisecond}},
			Answers: []receivers.Attempt{{At: now.Add(-time.Minute), Failed: true, Status: 500, Reason: "status_5xx", Took: 15 * time.Millisecond},
				{At: now.Add(-2 * time.Minute), Status: 200}}}}
	s.health = h
	s = s.as(ui.Visitor{})
	s.dead("app1:orders:paid:1", "https://shop.example/hook", notice.ReasonStatus5xx, "no")
	s.dead("app1:orders:paid:2", "https://other.example/hook", notice.ReasonStatus5xx, "no")
	s.engine.Tell(fleet.Figures{Hosts: []fleet.HostFigures{{Prefix: "app1:orders", Host: "shop.example:443", Slots: 16, Calls: 20,
		Failed: 18, MeanMS: 33}}})

	page := s.get("/ui/receivers/shop.example:443").is(200).says("Text of the last responses", "HTTP 500 · app1:orders:paid:1 no")
	page.says("Route orders", "failing", "HTTP 500, 38 in a row", "waiting 23 · next attempt", "dead 1 ",
		"20, failure rate 90 %", "33ms", "50 attempts, 38 failed (76 %).", "Mean 100ms, slowest hour 120ms.", "HTTP 500 15ms", "delivered < 1ms",
		"Attempts since the hour of its first failure, "+hour.Add(-time.Hour).Format("15:04")+" UTC")
	if text := textOf(page.tree); !regexp.MustCompile(`counted 1\ds ago`).MatchString(text) {
		t.Errorf("the page does not say that it was counted 10s ago, or a little more: %s", text)
	}
	s.get("/ui/receivers/well.example:443").is(200).says("recovered", "last success")
	s.get("/ui/receivers/none.example:443").is(404).says("No data for this receiver")
	s.get("/ui/receivers").is(200).says("1 to 2 of 2 receivers, 1 failing.", "shop.example:443 orders failing", "23 0 / 16 20 90 %",
		"well.example:443 orders recovered")
	if to := s.get("/ui/destinations").is(301).Header.Get("Location"); to != "/ui/receivers" {
		t.Errorf("the former address leads to %q", to)
	}
	s.get("/ui/").says("HTTP 500, 38 in a row · 23 waiting · next attempt").saysNot("counted")
	h.routes[0].Counted = now.Add(-12 * time.Hour)
	s.as(ui.Visitor{}).get("/ui/").says("23 waiting · counted 12h ago · next attempt")
	s.as(ui.Visitor{}).get("/ui/receivers").says("23 counted 12h ago")
	s.as(ui.Visitor{Prefix: "app2"}).get("/ui/receivers/shop.example:443").is(404)
	s.as(ui.Visitor{Prefix: "app1:orders:paid"}).get("/ui/receivers/shop.example:443").is(404)

	first := h.routes[0].Receivers[0].Since
	h.routes[0].Receivers[0].LastSuccess = time.Time{}
	none := "no success since its first known failure at " + problems.Moment{At: first, Now: now}.Clock()
	s.as(ui.Visitor{}).get("/ui/receivers/shop.example:443").is(200).says("last success " + none)
	s.as(ui.Visitor{}).get("/ui/").says("next attempt", none).saysNot("no success recorded")

	h.err = errors.New("x")
	s.get("/ui/receivers/shop.example:443").is(200).says("38 in a row", "Internal error")
}

// The dead letters of one receiver that died within a window are redriven at a rate, after a preview.
func TestRedeliverWindow(t *testing.T) {
	s := newSite(t)
	for i := range 3 {
		s.dead(fmt.Sprintf("app1:orders:paid:%d", i), "https://shop.example/hook", notice.ReasonStatus5xx, "no")
	}
	s.dead("app1:orders:paid:other", "https://other.example/hook", notice.ReasonStatus5xx, "no")
	s.dead("app1:fixed:a:1", "", notice.ReasonStatus5xx, "no")
	const path = "/ui/receivers/shop.example:443/redeliver"
	s.get(path+"?route=orders").is(200).saysNot("<strong>3</strong>", "Redeliver 3")
	s.get(path + "?route=orders&preview=1&until=-1h").is(200).says("0 dead letters")
	s.get(path + "?route=orders&preview=1&rate=x").says("Not a rate")
	s.get(path + "?route=orders&preview=1&since=25:00").says("25:00 is not a time")
	page := s.get(path+"?route=orders&preview=1&since=-1h&rate=30/m").is(200).says("3 dead letters", "about 6s at 30/m", "Redeliver 3 notices")

	before := time.Now()
	to := s.post(path, page.fields(path)...).is(303).Header.Get("Location")
	if to != "/ui/receivers/shop.example:443?n=3&said=group" {
		t.Error(to)
	}
	last := time.Duration(0)
	for key, f := range s.engine.All() {
		switch {
		case key == "app1:orders:paid:other" || key == "app1:fixed:a:1":
			if f.State != notice.Dead {
				t.Errorf("%s was redriven", key)
			}
		case f.State != notice.Scheduled:
			t.Errorf("%s is %s", key, f.State)
		default:
			last = max(last, f.Due.Sub(before))
		}
	}
	if last < 4*time.Second-time.Millisecond || last > 6*time.Second {
		t.Errorf("the last of three is due after %s, want 4 s", last)
	}
	s.get("/ui/audit").says("3 dead letters to shop.example:443", "at 30/m")

	s.get("/ui/receivers/erp.example:443/redeliver?route=fixed&preview=1").is(200).says("1 dead letter")
	s.get("/ui/receivers/shop.example:443/redeliver?route=fixed").is(404)
	s.get("/ui/receivers/shop.example:443/redeliver?route=none").is(404)
	s.as(ui.Visitor{Prefix: "app2"}).get(path + "?route=orders").is(404)
	s.as(ui.Visitor{Role: auth.Read}).get(path + "?route=orders").is(403)
}
