package ui_test

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"notifier/internal/audit"
	"notifier/internal/doctor"
	"notifier/internal/fleet"
	"notifier/internal/history"
	"notifier/internal/jobs"
	"notifier/internal/notice"
	"notifier/internal/receivers"
	"notifier/internal/store"
	"notifier/internal/ui"
)

const attack = `"><script>alert(1)</script><img src=x onerror=alert(2)>'` + "`{{.}}${1}\u202e\x1b[2J\x00</pre></textarea></title>"

// tame checks that no part of the attack became markup.
func tame(t *testing.T, path string, a answer) {
	t.Helper()
	file := strings.HasPrefix(a.Header.Get("Content-Type"), "text/csv")
	if a.tree == nil && !file { // a stream: the blocks are pieces of a page
		var blocks strings.Builder
		for line := range strings.Lines(a.body) {
			blocks.WriteString(strings.TrimPrefix(line, "data: "))
		}
		tree, err := html.Parse(strings.NewReader(blocks.String()))
		if err != nil {
			t.Fatal(err)
		}
		a.tree = tree
	}
	if file {
		a.tree = &html.Node{}
	}
	a.each(func(n *html.Node) {
		switch {
		case n.Data == "img" || n.Data == "iframe" || n.Data == "object":
			t.Errorf("%s: a <%s>", path, n.Data)
		case n.Data == "script" && (n.FirstChild != nil || !strings.HasPrefix(attr(n, "src"), "/ui/assets/")):
			t.Errorf("%s: a foreign script", path)
		}
		for _, at := range n.Attr {
			if strings.HasPrefix(at.Key, "on") || at.Key == "style" {
				t.Errorf("%s: <%s %s>", path, n.Data, at.Key)
			}
			if link := at.Key == "href" || at.Key == "action"; link && !strings.HasPrefix(at.Val, "/ui/") && !strings.HasPrefix(at.Val, "#") {
				t.Errorf("%s: <%s %s=%q> leads to another place", path, n.Data, at.Key, at.Val)
			}
		}
	})
	download := a.Header.Get("Content-Type") == "application/x-ndjson" // which is data
	for _, bad := range []string{"\u202e", "\x1b", "\x00"} {
		if strings.Contains(a.body, bad) && !download {
			t.Errorf("%s holds %q", path, bad)
		}
	}
	if download && !strings.HasPrefix(a.Header.Get("Content-Disposition"), "attachment") ||
		a.Header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("%s could be shown as a page: %v", path, a.Header)
	}
	for name, values := range a.Header {
		for _, v := range values {
			if strings.ContainsAny(v, "\r\n\x00<>") {
				t.Errorf("%s: the header %s is %q", path, name, v)
			}
		}
	}
}

func TestHostileContentDoesNotRun(t *testing.T) {
	s := newSite(t)
	now := time.Now().UTC()
	n := &notice.Notice{Key: "app1:orders:paid:1", Route: "app1:orders", Made: notice.MadeAt(now), Due: now, Reason: notice.Reason(attack),
		Content: notice.Content{URL: "javascript:alert(1)//" + attack, Audience: attack, ContentType: attack, Method: attack,
			Body:    []byte(attack),
			Headers: []notice.Header{{Name: attack, Value: attack}}}}
	n.Add(notice.Attempt{Number: 1, At: now, Status: 200, Reason: notice.Reason(attack), Response: attack})
	s.engine.Add(store.Found{Notice: n, State: notice.Dead, SettledAt: now})
	raw := notice.Unread("app1:orders:paid:2", "app1:orders", attack)
	s.engine.Add(store.Found{Notice: raw, State: notice.Scheduled})
	s.engine.Tell(fleet.Figures{Routes: map[string]fleet.RouteFigures{}, Hosts: []fleet.HostFigures{{Prefix: "app1:orders", Host: attack,
		Breaker: attack}}},
		fleet.Instance{ID: attack, State: fleet.Alive, About: fleet.About{Label: attack, Version: attack,
			Routes: map[string]string{attack: attack}}})
	s.engine.Leave("app9", "app9:a:b:c")
	if err := s.engine.Audit(t.Context(), audit.Entry{Action: attack, Key: attack, Route: attack, Prefix: attack, Client: attack,
		Address: attack, Detail: attack, Result: attack, Via: attack}); err != nil {
		t.Fatal(err)
	}
	s.examine = func(context.Context) (*doctor.Report, error) {
		return &doctor.Report{Errors: 1, Findings: []doctor.Finding{{Check: attack, Node: attack, Message: attack, Remedy: attack,
			Severity: doctor.Error}}}, nil
	}
	s.engine.SetReady(fleet.Readiness{Ready: true, Degraded: []fleet.Condition{{Reason: attack, Urgent: true}}})
	moved := jobs.Job{ID: "x", Client: attack, State: attack, Reason: attack,
		Rule: jobs.Rule{From: "https://a.example/" + attack, To: attack,
			Prefix: "app1:orders", Audience: attack, Host: attack}}
	if err := (jobs.Store{Store: s.engine.Store()}).Add(t.Context(), &moved, jobs.MaxJobs); err != nil {
		t.Fatal(err)
	}
	past := &archive{}
	past.put("app1:orders:paid:1", notice.Ending(attack), func(r *history.Row) {
		r.Notice, r.Host, r.Damaged = n, attack, []string{attack}
	})
	sick := &physician{routes: []receivers.RouteHealth{{Prefix: "app1:orders", Receivers: []receivers.Health{{Name: attack, Since: now,
		Reason: attack}}}},
		day: receivers.Day{Answers: []receivers.Attempt{{At: now, Failed: true, Reason: attack}}}}
	s.history, s.health = past, sick
	s.replays = &replayer{list: []*history.Replay{{ID: "x", Name: attack, Client: "orders", Prefix: attack, Host: attack, Reason: attack,
		State: attack, Counts: map[string]int64{attack: 1}, ReplayAbout: history.ReplayAbout{Refused: map[string]int64{attack: 1},
			Outcomes: []notice.Ending{attack}}}}}
	s = s.as(ui.Visitor{}).running()
	s.get("/ui/doctor").is(200).says("<script>alert(1)</script>") // the first page shows the findings, too
	good := subject{"app1:orders:paid:1", "orders", attack, attack, "app1:orders", attack}
	bad := subject{attack, attack, attack, attack, attack, attack}
	for _, x := range []subject{good, bad, {"app1:orders:paid:2", "orders", "", "", "app9", "x"}} {
		for _, ask := range s.every(x) {
			a := s.ask(ask)
			tame(t, ask.String(), a)
			// The page after the redirect.
			if to := a.Header.Get("Location"); to != "" && a.StatusCode == http.StatusSeeOther {
				tame(t, to, s.get(to))
			}
		}
	}
	s.get("/ui/notices/app1:orders:paid:1").is(200).says("<script>alert(1)</script>") // as text
	s.get("/ui/").is(200).says(`"><script>alert(1)</script>`)
	s.get("/ui/audit").is(200).says(`"><script>alert(1)</script>`)
	s.get("/ui/history").is(200).says(`"><script>alert(1)</script>`)
	s.get("/ui/replays").is(200).says(`"><script>alert(1)</script>`)
	s.get("/ui/receivers").is(200).says(`audience "><script>alert(1)</script>`)
	s.get("/ui/receivers/" + url.PathEscape(attack)).is(200).says(`"><script>alert(1)</script>`)
	s.get("/ui/replays/" + url.PathEscape("orders:"+attack)).is(200).says(`"><script>alert(1)</script>`)
	// Responses come from other parties, too.
	s.keep("app1:orders:paid:3", notice.Content{URL: "https://shop.example/"}, time.Hour)
	a := s.post("/ui/notices/app1:orders:paid:3/test").is(200).says("acknowledged the test", "<b>thanks</b>")
	tame(t, "test", a)
}

func TestSecretsAreNotShown(t *testing.T) {
	s := newSite(t)
	s.keep("app1:orders:paid:1", notice.Content{URL: "https://user:hunter2@shop.example/hook",
		Headers: []notice.Header{{Name: "Authorization", Value: "Bearer hunter2"},
			{Name: "x-api-key", Value: "hunter2"}, {Name: "x-tenant", Value: "seven"}}}, time.Hour)
	s.keep("app1:fixed:a:1", notice.Content{}, time.Hour)
	for _, path := range append(paths("app1:orders:paid:1"), "/ui/notices/app1:fixed:a:1", "/ui/notices/app1:orders:paid:1") {
		s.get(path).saysNot("hunter2", "not-to-be-shown", "a secret of twenty")
	}
	s.get("/ui/notices/app1:orders:paid:1").says("x-tenant seven", "shop.example")
	s.get("/ui/notices/app1:fixed:a:1").says("erp.example")
}
