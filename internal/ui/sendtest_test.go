package ui_test

import (
	"strconv"
	"testing"
	"time"

	"notifier/internal/auth"
	"notifier/internal/notice"
	"notifier/internal/ui"
)

// The address of a route, its headers and where a host's name leads are hidden from clients
// with a prefix elsewhere.
func TestSendTestShowsHostAndStatusWithinAPrefix(t *testing.T) {
	s := newSite(t)
	s.keep("app1:orders:paid:1", notice.Content{URL: "https://shop.example/secret-path?q=secret-query"}, time.Hour)
	const test = "/ui/notices/app1:orders:paid:1/test"
	s.as(ui.Visitor{Prefix: "app1", Role: auth.Operate}).post(test).is(200).says("acknowledged the test", "shop.example", "200").
		saysNot("secret-path", "secret-query", "thanks", "Request", "Response", "test&#34;:true")
	// A client that sees all keys sees the exchange.
	s.as(ui.Visitor{Role: auth.Operate}).post(test).is(200).says("shop.example", "Request", "<b>thanks</b>")
}

func TestSendTestIsLimitedByClientAndRoute(t *testing.T) {
	s := newSite(t)
	s.table.Name("fixed").Rate = 1. / 60
	s.keep("app1:orders:paid:1", notice.Content{URL: "https://shop.example/"}, time.Hour)
	s.keep("app1:orders:paid:2", notice.Content{URL: "https://other.example/"}, time.Hour)
	s.keep("app1:fixed:a:1", notice.Content{}, time.Hour)
	who := s.as(ui.Visitor{Role: auth.Operate})
	wait := func(a answer) int {
		t.Helper()
		seconds, err := strconv.Atoi(a.is(429).says("Nothing was sent").Header.Get("Retry-After"))
		if err != nil {
			t.Errorf("Retry-After: %v", err)
		}
		return seconds
	}
	sent := 0
	for range 15 {
		for _, key := range []string{"app1:orders:paid:1", "app1:orders:paid:2"} {
			a := who.post("/ui/notices/" + key + "/test")
			if a.StatusCode == 200 {
				sent++
			} else if got := wait(a); got < 5 || got > 10 {
				t.Errorf("Retry-After is %d", got)
			}
		}
	}
	if sent != 3 {
		t.Errorf("%d of 30 tests were sent, want 3", sent)
	}
	// Another route has its own limit, and one whose RATE is lower allows that.
	who.post("/ui/notices/app1:fixed:a:1/test").is(200)
	if got := wait(who.post("/ui/notices/app1:fixed:a:1/test")); got < 50 || got > 60 {
		t.Errorf("RATE=1/m: Retry-After is %d", got)
	}
}
