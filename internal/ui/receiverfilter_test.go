package ui_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"notifier/internal/fleet"
	"notifier/internal/notice"
	"notifier/internal/receivers"
	"notifier/internal/ui"
)

// manyReceivers are receivers of a route of which three in four fail. Each of them was called lately.
func manyReceivers(n int) (*physician, fleet.Figures) {
	now := time.Now().UTC()
	route, figures := receivers.RouteHealth{Prefix: "app1:orders", Counted: now}, fleet.Figures{}
	for i := range n {
		x := receivers.Health{Name: fmt.Sprintf("callback-%04d.merchants.example:443", i), LastSuccess: now.Add(-50 * time.Hour),
			LastAttempt: now.Add(-time.Second), Status: 200}
		if i%4 > 0 {
			x.Since, x.Failures, x.Waiting = now.Add(-time.Duration(i)*time.Minute), 1234, 1000+i
			x.Status, x.Reason = 503, string(notice.ReasonStatus5xx)
		}
		if i%4 == 3 {
			x.Status, x.Reason = 0, string(notice.ReasonTimeout)
		}
		route.Receivers = append(route.Receivers, x)
		figures.Hosts = append(figures.Hosts, fleet.HostFigures{Prefix: "app1:orders", Host: x.Name, InFlight: 12, Slots: 16,
			Calls: 120 + int64(i), Failed: 118, MeanMS: 3210})
	}
	return &physician{routes: []receivers.RouteHealth{route}}, figures
}

func TestReceiversAreSelectedAndPaged(t *testing.T) {
	s := newSite(t)
	s.health, _ = manyReceivers(200)
	s = s.as(ui.Visitor{})
	s.get("/ui/receivers").is(200).says("1 to 50 of 200 receivers, 150 failing.", "Next page").saysNot("Previous page")
	s.get("/ui/receivers?page=4").says("151 to 200 of 200", "recovered", "Previous page").saysNot("Next page")
	s.get("/ui/receivers?page=99").says("151 to 200 of 200")
	s.get("/ui/receivers?page=x").says("1 to 50 of 200")
	s.get("/ui/receivers?q=CALLBACK-0007").says("1 to 1 of 1 receiver, 1 failing.", "callback-0007.merchants.example:443", "Clear")
	s.get("/ui/receivers?reason=timeout").says("1 to 50 of 50 receivers, 50 failing.").saysNot("HTTP 503")
	s.get("/ui/receivers?state=recovered").says("1 to 50 of 50 receivers, 0 failing.")
	s.get("/ui/receivers?route=fixed").says("No receiver matches.")
	if page := s.get("/ui/receivers?state=failing").body; !strings.Contains(page, `href="/ui/receivers?page=2&amp;state=failing"`) ||
		!strings.Contains(page, `data-live="/ui/live/receivers?state=failing"`) {
		t.Error("the next page or the stream has another filter")
	}
	s.post("/ui/receivers/pause", "host", "callback-0000.merchants.example", "prefix", "app1").is(303)
	s.get("/ui/receivers?state=paused").says("1 to 1 of 1 receiver, 0 failing.")
	s.as(ui.Visitor{Prefix: "app2"}).get("/ui/receivers").says("No receiver was called").saysNot("merchants.example", "200 receivers")
}

// The bounds of the page: 60 kB, and 20 kB a second if all blocks change with each sample, which is every 2 s.
func TestReceiversPageOfTwoThousandIsSmall(t *testing.T) {
	s := newSite(t)
	var figures fleet.Figures
	s.health, figures = manyReceivers(2000)
	s.engine.Tell(figures)
	s = s.as(ui.Visitor{})
	for _, lang := range []string{"en", "zh-CN"} {
		for _, path := range []string{"/ui/receivers", "/ui/receivers?page=17&state=failing&q=merchants"} {
			page := s.in(lang, "", path).is(200)
			if !strings.Contains(page.body, "merchants.example") || strings.Count(page.body, "<tr") < 50 {
				t.Fatalf("%s: %.300s", path, page.body)
			}
			if t.Logf("%s %s: %d bytes", lang, path, len(page.body)); len(page.body) > 60_000 {
				t.Errorf("%s %s has %d bytes, want at most 60,000", lang, path, len(page.body))
			}
		}
	}
	address, stop := s.serve()
	defer stop()
	live := s.watch(address, "receivers?q=merchants")
	defer func() { _ = live.body.Close() }()
	all := live.until(`id="rates-at"`)
	if t.Logf("%d bytes of a stream", len(all)); strings.Count(all, "merchants.example") < 50 || len(all) > 2*20_000 {
		t.Errorf("all blocks have %d bytes, want at most 20,000 a second", len(all))
	}
}
