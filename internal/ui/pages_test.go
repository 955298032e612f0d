package ui_test

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"notifier/internal/audit"
	"notifier/internal/auth"
	"notifier/internal/fleet"
	"notifier/internal/notice"
	"notifier/internal/store"
	"notifier/internal/ui"
	"notifier/internal/wire"
)

func late(n int64) fleet.Work {
	return fleet.Work{Outcomes: map[notice.Outcome]int64{notice.OutcomeDelivered: n}, Late: fleet.Spread{20: n}}
}

// The first page adds up the metrics of all instances, and names the instances without metrics.
func TestNowAddsUpAllInstances(t *testing.T) {
	s := newSite(t)
	other := fleet.Figures{Routes: map[string]fleet.RouteFigures{"app1:orders": {InFlight: 4,
		Waiting: map[notice.Held]int{notice.HeldBreaker: 30, notice.HeldRate: 5}, Work: late(10)}},
		Hosts: []fleet.HostFigures{{Prefix: "app1:orders", Host: "shop.example:443", InFlight: 1, Slots: 8, Waiting: 30, Calls: 10, Failed: 10,
			Breaker: "open", RetryMS: time.Now().Add(9 * time.Second).UnixMilli()}}}
	s.engine.Tell(fleet.Figures{Routes: map[string]fleet.RouteFigures{"app1:orders": {InFlight: 3,
		Waiting: map[notice.Held]int{notice.HeldBreaker: 9}, Work: late(20)}},
		Hosts: []fleet.HostFigures{{Prefix: "app1:orders", Host: "shop.example:443", InFlight: 2, Slots: 8, Waiting: 9, Calls: 30, Failed: 10}}},
		fleet.Instance{ID: "b", State: fleet.Alive, Figures: other.Encode(), About: fleet.About{Label: "web-2"}},
		fleet.Instance{ID: "c", State: fleet.Unresponsive, About: fleet.About{Label: "web-3"}})
	s.keep("app1:orders:paid:1", notice.Content{URL: "https://shop.example/"}, 10*time.Minute+30*time.Second)
	a := s.get("/ui/").is(200)
	a.says("orders", "1 pending", "in flight 7", "deferred 44", "Metrics of 1 instance are missing or incomplete: web-3",
		"Instance web-3 is unresponsive", "shop.example:443 does not answer", "20 of the last 40 calls failed",
		"30 attempts, none more than 1 s late", "1 notice in the next hour")
	s.get("/ui/receivers").is(200).says("shop.example:443 orders does not answer", "39 3 / 16 40 50 %")
}

// The work of a minute is counted once, also before its instance publishes figures of the next minute.
func TestNowCountsAMinuteOnce(t *testing.T) {
	s := newSite(t)
	end := time.Now().UTC()
	own := func(since time.Time) {
		s.engine.Tell(fleet.Figures{Since: since.UnixMilli(), Routes: map[string]fleet.RouteFigures{"app1:orders": {Work: late(20)}}})
	}
	own(end.Add(-time.Minute))
	s.get("/ui/").says("20 attempts, none more than 1 s late")
	s.engine.SetMinutes(fleet.Minute{Instance: s.engine.Self(), At: end.UnixMilli(), Routes: map[string]fleet.Work{"app1:orders": late(20)}})
	s.as(ui.Visitor{}).get("/ui/").says("20 attempts, none more than 1 s late")
	own(end)
	s.as(ui.Visitor{}).get("/ui/").says("40 attempts, none more than 1 s late")
}

func TestNowShowsLateRoutesAndActions(t *testing.T) {
	s := newSite(t)
	s.get("/ui/").says("No problems found")
	s.keep("app1:orders:paid:1", notice.Content{URL: "https://shop.example/"}, 0)
	now := time.Now().UTC()
	s.engine.Add(store.Found{State: notice.Scheduled, Notice: &notice.Notice{Key: "app1:orders:paid:2", Route: "app1:orders",
		Made: notice.MadeAt(now), Due: now.Add(-3 * time.Minute)}})
	s = s.as(ui.Visitor{}) // with new figures
	s.get("/ui/").says("orders is late", "the oldest for 3m").saysNot("No problems found")
	if err := s.engine.Pause(t.Context(), "app1:orders"); err != nil {
		t.Fatal(err)
	}
	s = s.as(ui.Visitor{})
	a := s.get("/ui/").says("orders is paused", "Resume orders")
	forms := 0
	a.each(func(n *html.Node) {
		if n.Data == "form" && attr(n, "action") == "/ui/routes/orders/resume" {
			forms++
		}
	})
	if forms != 1 {
		t.Errorf("%d buttons that resume", forms)
	}
	s.post("/ui/routes/orders/resume").is(303)
	s.as(ui.Visitor{}).get("/ui/").says("orders is late").saysNot("is paused")
}

func TestOutdatedFiguresAreMarked(t *testing.T) {
	s := newSite(t)
	s.keep("app1:orders:paid:1", notice.Content{URL: "https://shop.example/"}, time.Hour)
	s = s.open()
	s.engine.Fail(fmt.Errorf("away: %w", wire.ErrUnavailable))
	s.get("/ui/").is(200).says("No figures yet", "Redis is unavailable", "Not read yet.").
		saysNot("0 pending", "No attempts in the last hour", "No notice is due", "No instance has published")
	s.get("/ui/notices").is(503).says("Redis is unavailable")
	s.get("/ui/notices/app1:orders:paid:1").is(503)
	s.engine.Fail(errors.New("secret of the house"))
	s.get("/ui/dead").is(500).says("Internal error").saysNot("secret of the house")
}

func TestSearch(t *testing.T) {
	s := newSite(t)
	for i := range 60 {
		s.keep(fmt.Sprintf("app1:orders:paid:2026%02d", i), notice.Content{URL: "https://SHOP.example:8443/x"}, time.Duration(i+1)*time.Minute)
	}
	s.keep("app1:orders:lost:7", notice.Content{URL: "https://other.example/x"}, time.Hour)
	s.keep("app2:a:b:c", notice.Content{URL: "https://shop.example.evil.test/"}, time.Hour)
	s.dead("app1:orders:paid:dead1", "https://shop.example/", notice.ReasonTimeout, "")
	count := func(target string) int {
		t.Helper()
		n := 0
		s.get(target).is(200).each(func(e *html.Node) {
			if e.Data == "a" && strings.HasPrefix(attr(e, "href"), "/ui/notices/app") {
				n++
			}
		})
		return n
	}
	for target, want := range map[string]int{
		"/ui/notices": 50, "/ui/notices?q=app2:": 1, "/ui/notices?q=app1:orders:lost": 1, "/ui/notices?q=202607&list=1": 1,
		"/ui/notices?q=app1:orders:paid:20261": 10, "/ui/notices?host=other.example": 1, "/ui/notices?host=Shop.Example.": 50,
		"/ui/notices?state=dead": 1, "/ui/notices?reason=timeout": 1, "/ui/notices?reason=gone": 0,
		"/ui/notices?state=scheduled&until=%2B5m30s": 5, "/ui/notices?route=other": 1, "/ui/notices?route=fixed": 0, "/ui/notices?q=nothing": 0,
	} {
		if got := count(target); got != want {
			t.Errorf("%s: %d found, want %d", target, got, want)
		}
	}
	for target, text := range map[string]string{"/ui/notices?host=a/b": "host=a/b : not a host",
		"/ui/notices?since=soon":   "soon is not a time",
		"/ui/notices?state=asleep": "no such state", "/ui/notices?reason=boredom": "no such reason",
		"/ui/notices?reason=gone&state=scheduled": "only dead letters", "/ui/notices?q=%C3%A4": "Text is searched in the history only"} {
		s.get(target).is(200).says(text)
	}
	if a := s.get("/ui/notices?q=app1:orders:lost:7").is(303); a.Header.Get("Location") != "/ui/notices/app1:orders:lost:7" {
		t.Errorf("an exact key leads to %q", a.Header.Get("Location"))
	}
	// The link to the next page is valid for this search and visitor only.
	next := ""
	s.get("/ui/notices?q=app1:orders:paid").each(func(e *html.Node) {
		if e.Data == "a" && strings.Contains(attr(e, "href"), "cursor=") {
			next = attr(e, "href")
		}
	})
	if got := count(next); got != 11 {
		t.Errorf("%d on the second page %s", got, next)
	}
	s.get(strings.Replace(next, "app1%3Aorders", "app2%3Aorders", 1)).is(400)
	s.as(ui.Visitor{Prefix: "app1"}).get(next).is(400)
	s.get("/ui/notices?cursor=nonsense").is(400).says("Start the search again")
}

func TestNoticePageShowsTimelineAndActions(t *testing.T) {
	s := newSite(t)
	s.keep("app1:orders:paid:1", notice.Content{URL: "https://shop.example/hook", Body: []byte(`{"b":1.50,"a":[1,2]}`), Ladder: notice.Ladder{time.Minute, time.Hour}}, time.Hour)
	s.get("/ui/notices/app1:orders:paid:1").is(200).says("Due in", "Attempt 1", "Attempt 2, if attempt 1 fails",
		"1m after the previous attempt", "Attempt 3, if attempt 2 fails", "Dead letter, unless",
		`"b": 1.50`, "attempts 0 of 3", "msg_", "key one per host", "Cancel the notice", "Fire now", "Reschedule", "Send the test").saysNot("Redrive")
	s.engine.Move("app1:orders:paid:1", notice.Delivered, "")
	s.get("/ui/notices/app1:orders:paid:1").says("Delivered", "by attempt 1", "HTTP 200 · delivered · 12ms").saysNot("Cancel the notice",
		"Fire now", "Redrive")
	s.dead("app1:orders:paid:2", "https://shop.example/", notice.ReasonStatus5xx, "no")
	s.get("/ui/notices/app1:orders:paid:2").says("Died 1", "status_5xx", "Redrive…", "Cancel the notice").saysNot("Fire now")
	s.get("/ui/notices/app1:orders:paid:none").is(404)
	s.as(ui.Visitor{Role: auth.Read}).get("/ui/notices/app1:orders:paid:2").is(200).saysNot("Redrive…", "Cancel the notice", `/cancel"`, `/test"`)
}

func TestChangesAreConfirmedAndAudited(t *testing.T) {
	s := newSite(t)
	state := func(key string, want notice.State) store.Found {
		t.Helper()
		f := s.engine.All()[key]
		if f.State != want {
			t.Errorf("%s is %s, want %s", key, f.State, want)
		}
		return f
	}
	for i := range 3 {
		s.keep(fmt.Sprintf("app1:orders:paid:%d", i), notice.Content{URL: "https://shop.example/"}, time.Hour)
	}
	page := "/ui/notices/app1:orders:paid:0"
	if a := s.post(page + "/cancel").is(303); a.Header.Get("Location") != page+"?said=cancelled" {
		t.Error(a.Header.Get("Location"))
	}
	state("app1:orders:paid:0", notice.Cancelled)
	s.get("/ui/notices/app1:orders:paid:0?said=cancelled").says("The notice is cancelled.")
	if a := s.post("/ui/notices/app1:orders:paid:0/cancel").is(303); !strings.HasSuffix(a.Header.Get("Location"), "said=unchanged") {
		t.Error(a.Header.Get("Location"))
	}
	s.post("/ui/notices/app1:orders:paid:1/fire").is(303)
	if f := state("app1:orders:paid:1", notice.Scheduled); time.Until(f.Due) > time.Second {
		t.Errorf("fired, and due %s", f.Due)
	}
	s.post("/ui/notices/app1:orders:paid:2/reschedule", "due", "+5m").is(303)
	if f := state("app1:orders:paid:2", notice.Scheduled); time.Until(f.Due) > 6*time.Minute || time.Until(f.Due) < 4*time.Minute {
		t.Errorf("rescheduled, and due %s", f.Due)
	}
	for _, bad := range []string{"", "soon", "+9999999h"} {
		s.post("/ui/notices/app1:orders:paid:2/reschedule", "due", bad).is(422).says("Nothing was changed")
	}
	s.dead("app1:orders:paid:9", "https://shop.example/", notice.ReasonTimeout, "")
	s.post("/ui/notices/app1:orders:paid:9/redrive").is(303)
	state("app1:orders:paid:9", notice.Scheduled)
	s.post("/ui/notices/app1:orders:paid:2/test").is(200)
	s.post("/ui/routes/orders/pause").is(303)
	s.get("/ui/routes?said=paused").says("orders paused", "Resume orders", "The route is paused")
	list, err := s.engine.Audited(t.Context(), audit.Range{}, 100)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range list {
		if e.Via != audit.Pages || e.Result != audit.Done {
			t.Errorf("%+v", e)
		}
		got = append(got, string(e.Action))
	}
	if want := "pause send-test redrive reschedule fire cancel"; strings.Join(got, " ") != want {
		t.Errorf("the audit has %v, want %s", got, want)
	}
	s.get("/ui/audit").is(200).says("app1:orders:paid:9", "redrive", "pause", "done")
	s.get("/ui/audit?prefix=app1:orders:paid:9").is(200).says("redrive").saysNot(">fire<")
}

// A change without the token of the page, or without the role, is refused.
func TestChangesWithoutTokenOrRoleAreRefused(t *testing.T) {
	s := newSite(t)
	s.keep("app1:orders:paid:1", notice.Content{URL: "https://shop.example/"}, time.Hour)
	s.dead("app1:orders:paid:2", "https://shop.example/", notice.ReasonTimeout, "")
	before := s.engine.Changes()
	group := []string{"route", "orders", "reason", "timeout", "host", "shop.example", "sure", "yes"}
	changes := map[string][]string{"/ui/notices/app1:orders:paid:1/cancel": nil, "/ui/notices/app1:orders:paid:1/fire": nil,
		"/ui/notices/app1:orders:paid:1/reschedule": {"due", "+1m"}, "/ui/notices/app1:orders:paid:2/redrive": nil,
		"/ui/notices/app1:orders:paid:1/test": nil, "/ui/routes/orders/pause": nil, "/ui/routes/orders/resume": nil, "/ui/dead/redrive": group,
		"/ui/dead/purge": group}
	for path, fields := range changes {
		if a := s.post(path, append(fields, "csrf", "another")...); a.StatusCode < 400 {
			t.Errorf("%s without the token: %d", path, a.StatusCode)
		}
		s.get(path).is(404)
		if a := s.as(ui.Visitor{Role: auth.Read}).post(path, fields...); a.StatusCode != 403 {
			t.Errorf("%s by who may only look: %d", path, a.StatusCode)
		}
		other := s.as(ui.Visitor{Prefix: "app2"}).post(path, fields...)
		if other.StatusCode != 404 && other.StatusCode != 403 {
			t.Errorf("%s by who sees nothing of it: %d", path, other.StatusCode)
		}
	}
	if n := s.engine.Changes() - before; n != 0 {
		t.Errorf("%d changes were made", n)
	}
}

func TestDeadLettersAreGroupedByReason(t *testing.T) {
	s := newSite(t)
	for i := range 6 {
		s.dead(fmt.Sprintf("app1:orders:paid:t%d", i), "https://shop.example/", notice.ReasonTimeout, "slow")
	}
	s.dead("app1:orders:paid:g1", "https://shop.example/", notice.ReasonGone, "left")
	s.dead("app1:orders:paid:g2", "https://other.example/", notice.ReasonGone, "left")
	s.get("/ui/dead").is(200).says("orders 6 timeout", "orders 2 gone", "8 dead letters, counted").saysNot("shop.example")
	s.get("/ui/dead/group?reason=gone&route=orders").is(200).says("2 notices", "2 receivers", "shop.example 1", "other.example 1",
		"HTTP 500 left", "Redrive 2 notices")
	s.get("/ui/dead/group?route=orders").is(200).says("All dead letters of orders", "8 notices", "Redrive 8 notices")
	s.get("/ui/dead?route=orders").is(200).says("All dead letters of orders")
	s.dead("app1:orders:paid:x", "https://shop.example/", notice.ReasonExpired, "")
	s.get("/ui/dead/group?reason=expired&route=orders").is(200).
		says("These notices have expired.", "Purge 1 notice").saysNot("Redrive 1 notice")
	// A visitor who does not own the route gets its own groups, with their hosts.
	s.as(ui.Visitor{Prefix: "app1:orders:paid"}).get("/ui/dead").is(200).says("6 timeout shop.example", "HTTP 500 slow", "1 gone shop.example",
		"1 gone other.example")
	const group = "/ui/dead/group?host=shop.example&reason=timeout&route=orders"
	s.get(group).is(200).says("6 notices", "Redrive 6 notices", "The file contains secrets", "Download 6 notices",
		"app1:orders:paid:t5").saysNot("paid:g1")
	file := s.get("/ui/dead/download?host=shop.example&reason=timeout&route=orders").is(200)
	lines := strings.Split(strings.TrimSpace(file.body), "\n")
	if len(lines) != 6 || !strings.Contains(lines[0], `"key":"app1:orders:paid:t`) || !strings.Contains(lines[0], `"body":{"of":"app1`) || file.Header.Get("Content-Type") != "application/x-ndjson" {
		t.Errorf("%d lines: %s", len(lines), file.body)
	}
	args := []string{"route", "orders", "reason", "timeout", "host", "shop.example"}
	s.post("/ui/dead/purge", args...).is(422).says("Nothing was purged")
	s.post("/ui/dead/redrive", append(args, "rate", "fast")...).is(422).says("Nothing was redriven")
	a := s.post("/ui/dead/redrive", append(args, "rate", "6/h")...).is(303)
	s.get(a.Header.Get("Location")).is(200).says("6 notices of orders scheduled again, at 6/h.", "pending 6", "dead again 0",
		"delivered or cancelled 0")
	soon, later := 0, 0
	for key, f := range s.engine.All() {
		if strings.Contains(key, ":t") {
			if f.State != notice.Scheduled {
				t.Errorf("%s is %s", key, f.State)
			}
			if in := time.Until(f.Due); in < 5*time.Minute {
				soon++
			} else if in > 45*time.Minute && in < time.Hour {
				later++
			}
		}
	}
	if soon != 1 || later != 1 {
		t.Errorf("spread over an hour: %d of six within 5 minutes, %d in the last quarter", soon, later)
	}
	s.post("/ui/dead/purge", "route", "orders", "reason", "gone", "host", "other.example", "sure", "yes").is(303)
	if s.engine.All()["app1:orders:paid:g2"].State != notice.Cancelled || s.engine.All()["app1:orders:paid:g1"].State != notice.Dead {
		t.Error("a purge reaches another group than its own")
	}
	for _, bad := range []string{"?route=none&reason=timeout", "?reason=timeout", "?route=orders&reason=boredom", ""} {
		s.get("/ui/dead/group" + bad).is(404)
	}
}

// TestDeadLettersOfOneStatus checks that a group of a status is counted, listed and redriven apart.
func TestDeadLettersOfOneStatus(t *testing.T) {
	s := newSite(t)
	for i, status := range []int{500, 503, 503} {
		s.deadOf(fmt.Sprintf("app1:orders:paid:s%d", i), fmt.Sprintf("https://shop%d.example/", i),
			notice.Cause{Reason: notice.ReasonStatus5xx, Status: status}, "down")
	}

	s.get("/ui/dead").is(200).says("orders 2 HTTP 503 status_5xx", "orders 1 HTTP 500 status_5xx", "3 dead letters")
	const group = "/ui/dead/group?reason=status_5xx&route=orders&status=503"
	s.get(group).is(200).says("the reason HTTP 503", "2 notices", "shop1.example", "shop2.example").saysNot("shop0.example")
	s.get("/ui/dead/group?reason=status_5xx&route=orders&status=404").is(404)
	s.post("/ui/dead/redrive", "route", "orders", "reason", "status_5xx", "status", "503").is(303)
	all := s.engine.All()
	if all["app1:orders:paid:s0"].State != notice.Dead || all["app1:orders:paid:s1"].State != notice.Scheduled ||
		all["app1:orders:paid:s2"].State != notice.Scheduled {
		t.Error("a redrive of a status reaches another one")
	}
}

// languageLinks are the addresses of a page in other languages: they repeat the request.
var languageLinks = regexp.MustCompile(`href="/ui/language\?[^"]*"`)

// Two scopes do not see each other.
func TestScopesDoNotSeeEachOther(t *testing.T) {
	s := newSite(t)
	s.keep("app1:orders:paid:mine", notice.Content{URL: "https://shop.example/"}, time.Hour)
	s.keep("app2:a:b:theirs", notice.Content{URL: "https://theirs.example/"}, time.Hour)
	s.dead("app2:a:b:theirdead", "https://theirs.example/", notice.ReasonTimeout, "their answer")
	s.engine.Tell(fleet.Figures{Routes: map[string]fleet.RouteFigures{"app2": {InFlight: 77, Work: late(4242)}},
		Hosts: []fleet.HostFigures{{Prefix: "app2", Host: "theirs.example:443", Calls: 4242, Breaker: "open"}}})
	if err := s.engine.Audit(t.Context(), audit.Entry{Action: audit.Cancel, Key: "app2:a:b:theirs", Client: "theirclient"}); err != nil {
		t.Fatal(err)
	}
	for _, v := range []ui.Visitor{{Prefix: "app1"}, {Prefix: "app1:orders"}, {Prefix: "app1", Host: "shop.example"},
		{Prefix: "app1:orders", Audience: "shop"}} {
		me := s.as(v)
		for _, path := range append(paths("app1:orders:paid:mine"), "/ui/notices?q=app2", "/ui/notices?q=theirs",
			"/ui/notices?host=theirs.example", "/ui/notices/app2:a:b:theirs",
			"/ui/notices/app2:a:b:theirdead", "/ui/dead/group?route=other&reason=timeout&host=theirs.example", "/ui/dead/download?route=other&reason=timeout&host=theirs.example",
			"/ui/audit?prefix=app2", "/ui/notices?route=other") {
			a := me.get(path)
			page := strings.NewReplacer(`value="theirs.example"`, "", `value="theirs"`, "").Replace(languageLinks.ReplaceAllString(a.body, ""))
			for _, secret := range []string{"app2:", "theirs.example:443", "theirdead", "their answer", "4,242", "theirclient", ">77<", ">other<"} {
				if strings.Contains(page, secret) {
					t.Errorf("%+v at %s sees %q", v, path, secret)
				}
			}
		}
		if v.Audience == "" {
			me.get("/ui/notices/app1:orders:paid:mine").is(200)
		}
		me.get("/ui/doctor").is(403)
	}
	// A visitor who sees only some notices of a prefix gets no figures, since they include
	// the other notices.
	link := s.as(ui.Visitor{Prefix: "app1", Host: "shop.example"})
	s.keep("app1:orders:paid:another", notice.Content{URL: "https://another.example/"}, time.Hour)
	link.get("/ui/notices/app1:orders:paid:another").is(404)
	link.get("/ui/notices?q=app1:orders:paid:another").is(200).saysNot(`href="/ui/notices/app1:orders:paid:another"`)
	link.get("/ui/").saysNot("pending")
}

// TestNowNamesCausesOfDeaths checks that the first page groups the deaths of the last hour by cause.
func TestNowNamesCausesOfDeaths(t *testing.T) {
	s := newSite(t)
	for i := range 5 {
		s.deadOf(fmt.Sprintf("app1:orders:paid:s%d", i), fmt.Sprintf("https://shop%d.example/", i),
			notice.Cause{Reason: notice.ReasonStatus5xx, Status: 503}, "down")
	}

	for i, reason := range []notice.Reason{notice.ReasonTimeout, notice.ReasonTimeout, notice.ReasonDNS, notice.ReasonGone} {
		s.dead(fmt.Sprintf("app1:orders:paid:o%d", i), "https://shop.example/", reason, "")
	}

	s.get("/ui/").is(200).says("orders: 5 dead letters in the last hour, HTTP 503", "since ", "View and redrive",
		"orders: 2 dead letters in the last hour, timeout", "orders: 1 more dead letter in the last hour, of other causes")
	reader := s.as(ui.Visitor{Prefix: "app1", Role: auth.Read})
	reader.get("/ui/").is(200).says("orders: 5 dead letters in the last hour, HTTP 503").saysNot("View and redrive")
	s.as(ui.Visitor{Prefix: "app1:orders:paid"}).get("/ui/").is(200).saysNot("dead letters in the last hour")
	s = newSite(t)
	s.get("/ui/").is(200).saysNot("dead letters in the last hour")
}
