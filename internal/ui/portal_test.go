package ui_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"notifier/internal/audit"
	"notifier/internal/auth"
	"notifier/internal/engine/enginetest"
	"notifier/internal/history"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/ui"
	"notifier/internal/wire"
)

// portal returns the pages for a visitor with a link of the client internalclient. The only route is
// internalroute.
func portal(t *testing.T, scope auth.LinkScope) (*site, *archive) {
	t.Helper()
	rt := &route.Route{Name: "internalroute", Prefix: "app1:orders", Target: route.Target{Kind: route.KindNotice},
		Ladder: notice.DefaultLadder, Timeout: 10 * time.Second, Concurrency: 64, HostConcurrency: 16, Ack: route.Ack{Kind: route.Ack2xx}}
	table, err := route.NewTable([]*route.Route{rt})
	if err != nil {
		t.Fatal(err)
	}
	past := &archive{}
	s := &site{t: t, table: table, engine: enginetest.New(t, table), history: past}
	maker := auth.Client{Name: "internalclient", Token: "token-of-the-client", Prefix: "app1", Role: auth.Operate}
	office := auth.NewSessions(auth.SessionOptions{Keys: wire.FixedKey(serviceKey), Register: s.engine,
		Clients: auth.NewClients([]auth.Client{maker})})
	link, err := office.MakeLink(t.Context(), auth.Caller{Name: maker.Name, Prefix: maker.Prefix, Role: maker.Role}, scope, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	cookie, who, err := office.Enter(t.Context(), link.Token)
	if err != nil {
		t.Fatal(err)
	}
	s.cookie, s.csrf = cookie, who.CSRF()
	s.pages = ui.New(ui.Options{Engine: s.engine, Routes: table, Sessions: office, Loopback: true, Version: "test", History: past})
	return s, past
}

const mine, others = "app1:orders:paid:1", "app1:orders:paid:2"

// kept adds a dead letter of the link's host and one of another host, and an entry of the history.
func (s *site) kept(past *archive) {
	s.t.Helper()
	s.dead(mine, "https://shop.example/", notice.ReasonStatus5xx, "no")
	s.dead(others, "https://other.example/", notice.ReasonTimeout, "")
	past.put("app1:orders:paid:3", notice.EndDead, func(*history.Row) {})
	past.put("app1:orders:paid:4", notice.EndDelivered, func(r *history.Row) { r.Host, r.URL = "other.example", "https://other.example/" })
}

func TestPortalPagesHaveNoInternalNames(t *testing.T) {
	for _, scope := range []auth.LinkScope{{Prefix: "app1:orders", Host: "shop.example", Label: "Shop Blue"},
		{Prefix: "app1", Label: "Shop Blue"}, {Prefix: "app1"}} {
		s, past := portal(t, scope)
		s.kept(past)
		x := subject{key: mine, route: "app1:orders", reason: "status_5xx", host: "shop.example", prefix: "app1:orders", link: "none"}
		shown := 0
		for _, a := range s.every(x) {
			got := s.ask(a)
			for _, internal := range []string{"internalroute", "internalclient"} {
				got.saysNot(internal)
			}
			tree, err := html.Parse(strings.NewReader(got.body)) // also of a stream
			if err != nil {
				t.Fatal(err)
			}
			if text := textOf(tree); strings.Contains(text, "status_5xx") {
				t.Errorf("%s shows the code of a reason: %s", a.path, text)
			}
			if got.StatusCode == 200 && scope.Label != "" && strings.Contains(got.body, "Sign out") {
				got.says(scope.Label)
				shown++
			}
		}
		if scope.Label != "" && shown < 10 {
			t.Errorf("%d pages show the label", shown)
		}
		s.get("/ui/notices/"+mine).is(200).says("Died", "HTTP 500").saysNot("/resend")
		s.get("/ui/dead").is(200).says("HTTP 5xx", "app1:orders")
		s.get("/ui/notices?q=2d").is(200).says("HTTP 410 · receiver wants no more notices")
		s.get("/ui/notices/app1:orders:paid:3").is(200).says("receiver wants no more notices")
		s.get("/ui/").is(403).says("This link shows notices only")
	}
}

func TestPortalResendsNoticesOfItsHostOnly(t *testing.T) {
	s, past := portal(t, auth.LinkScope{Prefix: "app1:orders", Host: "shop.example", Resend: true})
	s.kept(past)
	id := func(key string) string {
		f, err := s.engine.Find(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		return f.ID()
	}
	s.get("/ui/notices/"+mine).is(200).says("Resend").saysNot("/redrive", "/cancel")
	s.get("/ui/notices/app1:orders:paid:3").is(200).says("Resend")
	s.post("/ui/notices/"+others+"/resend", "id", id(others), "ending", "1").is(404)
	s.post("/ui/notices/app1:orders:paid:4/resend", "id", past.rows[1].ID(), "ending", "1").is(404)
	s.post("/ui/notices/" + mine + "/redrive").is(403)
	s.post("/ui/notices/"+mine+"/resend", "id", id(mine), "ending", "2").is(409).says("Its state has changed")
	s.post("/ui/notices/"+mine+"/resend", "id", id(mine), "ending", "1").is(303)
	if f, err := s.engine.Find(t.Context(), mine); err != nil || f.Resend != 1 {
		t.Errorf("after the resend: %+v, %v", f, err)
	}

	list, err := s.engine.Audited(t.Context(), audit.Range{}, 10)
	if err != nil || len(list) != 1 || list[0].Action != audit.Resend || list[0].Key != mine || list[0].Client != "internalclient" ||
		!strings.HasPrefix(list[0].Detail, "it was d") || !strings.Contains(list[0].Detail, ", by link ") {
		t.Errorf("the audit has %+v, %v", list, err)
	}
}

func TestPortalWithoutResendIsRefused(t *testing.T) {
	s, past := portal(t, auth.LinkScope{Prefix: "app1:orders", Host: "shop.example"})
	s.kept(past)
	f, err := s.engine.Find(context.Background(), mine)
	if err != nil {
		t.Fatal(err)
	}
	s.post("/ui/notices/"+mine+"/resend", "id", f.ID(), "ending", "1").is(403)
}

func TestPortalResendsAreLimited(t *testing.T) {
	s, past := portal(t, auth.LinkScope{Prefix: "app1:orders", Host: "shop.example", Resend: true})
	s.kept(past)
	for range auth.MaxResends {
		s.post("/ui/notices/"+mine+"/resend", "id", "msg_0", "ending", "1").is(409)
	}
	if a := s.post("/ui/notices/"+mine+"/resend", "id", "msg_0", "ending",
		"1").is(429).says("10 notices a minute"); a.Header.Get("Retry-After") == "" {
		t.Error("429 without Retry-After")
	}
}
