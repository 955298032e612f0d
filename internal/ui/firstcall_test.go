package ui_test

import (
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"notifier/internal/api"
	"notifier/internal/auth"
	"notifier/internal/engine/enginetest"
	"notifier/internal/notice"
	"notifier/internal/problems"
	"notifier/internal/route"
	"notifier/internal/sign"
	"notifier/internal/ui"
	"notifier/internal/wire"
)

// firstCommand is the command of the page of an empty system.
func (a answer) firstCommand() (text string) {
	a.each(func(n *html.Node) {
		if n.Data == "section" && attr(n, "aria-labelledby") == "first-title" {
			for c := n.FirstChild; c != nil; c = c.NextSibling {
				if c.Data == "pre" {
					text = c.FirstChild.Data
				}
			}
		}
	})
	return text
}

// The page of an empty system has a command that a shell runs as it is: it schedules a notice of the first route.
func TestEmptySystemShowsTheFirstCall(t *testing.T) {
	for name, change := range map[string]func(r *route.Route){
		"a url for each notice": func(*route.Route) {},
		"https only":            func(r *route.Route) { r.HTTPSOnly = true },
		"by audience":           func(r *route.Route) { r.SignPer = sign.PerAudience },
		"a fixed target": func(r *route.Route) {
			*r = route.Route{Name: r.Name, Prefix: r.Prefix, Target: route.Target{Kind: route.KindLog}}
		},
		"one segment":    func(r *route.Route) { r.Prefix = "app1" },
		"three segments": func(r *route.Route) { r.Prefix = "app1:orders:paid" },
	} {
		t.Run(name, func(t *testing.T) {
			table := routes(t)
			first := *table.All()[0]
			change(&first)
			table, err := route.NewTable([]*route.Route{&first})
			if err != nil {
				t.Fatal(err)
			}
			engine := enginetest.New(t, table)
			clients := []auth.Client{{Name: "me", Token: "token-of-me", Role: auth.Admin}}
			office := auth.NewSessions(auth.SessionOptions{Keys: wire.FixedKey(serviceKey), Register: engine,
				Clients: auth.NewClients(clients)})
			figures := problems.NewSampler(problems.SamplerOptions{Engine: engine, Routes: table, Now: time.Now})
			mux := http.NewServeMux()
			mux.Handle("/v1/", api.New(api.Options{Engine: engine, Routes: table, Clients: clients, Version: "test"}))
			mux.Handle("/ui/", ui.New(ui.Options{Engine: engine, Routes: table, Sessions: office, Version: "test", Sampler: figures}))
			server := httptest.NewServer(mux)
			defer server.Close()
			cookie, _, err := office.SignIn(t.Context(), "token-of-me", "127.0.0.1")
			if err != nil {
				t.Fatal(err)
			}
			get := func() answer {
				r := httptest.NewRequest(http.MethodGet, "/ui/", nil)
				r.Host = strings.TrimPrefix(server.URL, "http://")
				r.AddCookie(&http.Cookie{Name: "notifier_session", Value: cookie})
				w := httptest.NewRecorder()
				mux.ServeHTTP(w, r)
				return readAnswer(t, w)
			}

			command := get().is(200).says("Schedule the first notice").firstCommand()
			sh := exec.CommandContext(t.Context(), "sh", "-c", command)
			sh.Env = []string{"NOTIFIER_TOKEN=token-of-me", "PATH=/usr/bin:/bin", "no_proxy=*"}
			out, err := sh.CombinedOutput()
			if err != nil || !strings.Contains(string(out), " 201 ") {
				t.Fatalf("%s\n%v %s", command, err, out)
			}
			figures.Changed()
			if f := get().is(200); f.firstCommand() != "" {
				t.Error("a system with a notice shows the first call")
			}
		})
	}
}

// A visitor who may not schedule sees no call, and another one's notices do not count.
func TestFirstCallIsForProducers(t *testing.T) {
	s := newSite(t)
	s.keep("app1:orders:paid:1", notice.Content{URL: "https://shop.example/x"}, time.Hour)
	s.get("/ui/").is(200).saysNot("Schedule the first notice")
	s.as(ui.Visitor{Prefix: "app2"}).get("/ui/").is(200).says("Schedule the first notice", "app2:first:test:1")
	s.as(ui.Visitor{Prefix: "app2", Role: auth.Read}).get("/ui/").is(200).saysNot("Schedule the first notice")
}
