package ui_test

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/net/html"

	"notifier/internal/api"
	"notifier/internal/auth"
	"notifier/internal/callback"
	"notifier/internal/doctor"
	"notifier/internal/engine/enginetest"
	"notifier/internal/mask"
	"notifier/internal/notice"
	"notifier/internal/receivers"
	"notifier/internal/route"
	"notifier/internal/sign"
	"notifier/internal/store"
	"notifier/internal/ui"
	"notifier/internal/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const fixedTarget = "https://erp.example/hook?token=not-to-be-shown"

func routes(t testing.TB) *route.Table {
	t.Helper()
	base := func(name, prefix string, kind route.Kind) *route.Route {
		return &route.Route{Name: name, Prefix: prefix, Target: route.Target{Kind: kind}, Ladder: notice.DefaultLadder,
			Timeout: 10 * time.Second, Concurrency: 64, HostConcurrency: 16, Ack: route.Ack{Kind: route.Ack2xx}}
	}
	orders, fixed := base("orders", "app1:orders", route.KindNotice), base("fixed", "app1:fixed", route.KindFixed)
	orders.Secrets = []sign.Secret{sign.SecretOf([]byte("a secret of twenty-four b"))}
	u, err := url.Parse(fixedTarget)
	if err != nil {
		t.Fatal(err)
	}
	fixed.Target.URL = u
	table, err := route.NewTable([]*route.Route{orders, fixed, base("other", "app2", route.KindNotice)})
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// site is the pages over an engine in memory, as a visitor sees them.
type site struct {
	t      testing.TB
	engine *enginetest.Engine
	table  *route.Table
	pages  *ui.Pages
	cookie string
	csrf   string
	// examine are the checks of doctor; nil without any.
	examine func(context.Context) (*doctor.Report, error)
	history ui.Historian
	health  ui.Physician
	replays api.Replayer
	// recurrences are those of the engine.
	recurrences ui.Recurrer
	mask        *mask.Rules
	meter       *auth.Meter
}

func newSite(t testing.TB, change ...func(*route.Table)) *site {
	s := &site{t: t, table: routes(t)}
	for _, f := range change {
		f(s.table)
	}
	s.engine = enginetest.New(t, s.table)
	s.recurrences = s.engine.Recurrences()
	return s.as(ui.Visitor{})
}

// as returns the same service for a client of a scope. With a host or an audience, the visitor has opened
// a portal link.
func (s *site) as(v ui.Visitor) *site {
	s.t.Helper()
	c := *s
	office := auth.NewSessions(auth.SessionOptions{Keys: wire.FixedKey(serviceKey), Register: s.engine,
		Clients: auth.NewClients([]auth.Client{{Name: "me", Token: "token-of-me", Prefix: v.Prefix, Role: cmp.Or(v.Role, auth.Admin)}})})
	cookie, who, err := office.SignIn(s.t.Context(), "token-of-me", "127.0.0.1")
	if err == nil && v.Narrow() {
		var link *auth.Link
		if link, err = office.MakeLink(s.t.Context(), auth.Caller{Name: "me", Prefix: v.Prefix, Role: auth.Operate},
			auth.LinkScope{Prefix: v.Prefix, Host: v.Host, Audience: v.Audience, Label: v.Label, Resend: v.Resend}, time.Hour); err == nil {
			cookie, who, err = office.Enter(s.t.Context(), link.Token)
		}
	}
	if err != nil {
		s.t.Fatal(err)
	}
	c.cookie, c.csrf = cookie, who.CSRF()
	c.pages = ui.New(ui.Options{Engine: s.engine, Routes: s.table, Sessions: office, Loopback: true, Version: "test", Examine: c.examine,
		History: c.history, Health: c.health, Replays: c.replays, Mask: c.mask, Meter: c.meter,
		Recurrences: c.recurrences,
		Tests: api.NewTestSender(api.TestOptions{Routes: s.table, Mask: c.mask, Probe: func(_ context.Context, _ *route.Route,
			n *notice.Notice) callback.Exchange {
			return callback.Exchange{Method: "POST", URL: n.URL, RequestBody: string(n.Body), Status: 200, ResponseBody: "<b>thanks</b>",
				Result: notice.DeliveredResult(200)}
		}})})
	return &c
}

// open is the same service without clients.
func (s *site) open() *site {
	c := *s
	c.pages = ui.New(ui.Options{Engine: s.engine, Routes: s.table, Loopback: true, Version: "test",
		Sessions: auth.NewSessions(auth.SessionOptions{Keys: wire.FixedKey(serviceKey), Register: s.engine,
			Clients: auth.NewClients(nil)})})
	return &c
}

type answer struct {
	*http.Response
	body string
	t    testing.TB
	tree *html.Node
}

func (s *site) do(r *http.Request) answer {
	s.t.Helper()
	if r.Host == "example.com" {
		r.Host = "localhost:8080"
	}
	r.AddCookie(&http.Cookie{Name: "notifier_session", Value: s.cookie})
	w := httptest.NewRecorder()
	s.pages.ServeHTTP(w, r)
	return readAnswer(s.t, w)
}

func readAnswer(t testing.TB, w *httptest.ResponseRecorder) answer {
	t.Helper()
	b, err := io.ReadAll(w.Result().Body)
	if err != nil {
		t.Fatal(err)
	}
	tree, err := html.Parse(strings.NewReader(string(b)))
	if err != nil {
		t.Fatal(err)
	}
	return answer{w.Result(), string(b), t, tree}
}

func (s *site) get(target string) answer {
	s.t.Helper()
	return s.do(httptest.NewRequest(http.MethodGet, target, nil))
}

// post sends a form with the token of the session.
func (s *site) post(target string, fields ...string) answer {
	s.t.Helper()
	form := url.Values{"csrf": {s.csrf}}
	for i := 0; i+1 < len(fields); i += 2 {
		form.Set(fields[i], fields[i+1])
	}
	r := httptest.NewRequest(http.MethodPost, target, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return s.do(r)
}

func (a answer) is(status int) answer {
	a.t.Helper()
	if a.StatusCode != status {
		a.t.Fatalf("answered %d, want %d: %.2000s", a.StatusCode, status, a.body)
	}
	return a
}

// says checks for texts of the page, as a reader sees them.
func (a answer) says(wants ...string) answer {
	a.t.Helper()
	text := textOf(a.tree)
	for _, want := range wants {
		if !strings.Contains(text, want) {
			a.t.Errorf("the page does not say %q: %s", want, text)
		}
	}
	return a
}

func (a answer) saysNot(wants ...string) answer {
	a.t.Helper()
	for _, want := range wants {
		if strings.Contains(a.body, want) {
			a.t.Errorf("the page holds %q: %s", want, textOf(a.tree))
		}
	}
	return a
}

// each yields all elements.
func (a answer) each(do func(n *html.Node)) {
	for n := range a.tree.Descendants() {
		if n.Type == html.ElementNode {
			do(n)
		}
	}
}

func attr(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

// textOf is the text below a node, white space as one space.
func textOf(n *html.Node) string {
	var b strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode && d.Parent.Data != "script" && d.Parent.Data != "style" && d.Parent.Data != "title" {
			b.WriteString(d.Data + " ")
		}
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

// keep schedules a notice.
func (s *site) keep(key string, c notice.Content, delay time.Duration) {
	s.t.Helper()
	if _, err := s.engine.Schedule(s.t.Context(), store.Request{Key: key, Content: c, Delay: delay}); err != nil {
		s.t.Fatal(err)
	}
}

// dead keeps a dead letter with an answer.
func (s *site) dead(key, address string, reason notice.Reason, answer string) {
	s.t.Helper()
	s.deadOf(key, address, notice.Cause{Reason: reason, Status: 500}, answer)
}

// deadOf keeps a dead letter whose last attempt had a status.
func (s *site) deadOf(key, address string, c notice.Cause, answer string) {
	s.t.Helper()
	now := time.Now().UTC().Truncate(time.Millisecond)
	rt := s.table.Match(key)
	n := &notice.Notice{Key: key, Route: rt.Prefix, Made: notice.MadeAt(now.Add(-time.Hour)), Due: now.Add(-time.Minute), Reason: c.Reason,
		Content: notice.Content{URL: address, Body: []byte(`{"of":"` + key + `"}`)}}
	n.Add(notice.Attempt{Number: 1, At: now.Add(-time.Minute), Duration: 12 * time.Millisecond, Status: c.Status, Reason: c.Reason,
		Response: answer})
	s.engine.Add(store.Found{Notice: n, State: notice.Dead, SettledAt: now.Add(-time.Second)})
}

// all are the paths of all pages for a notice that is kept.
func paths(key string) []string {
	return []string{"/ui/", "/ui/notices", "/ui/notices?q=" + url.QueryEscape(key[:len(key)-1]), "/ui/notices/" + key, "/ui/dead",
		"/ui/dead/group?route=orders&reason=status_5xx&host=shop.example", "/ui/receivers", "/ui/routes", "/ui/doctor", "/ui/audit", "/ui/nothing"}
}

func TestOnlyBrowsersAreRedirectedToThePages(t *testing.T) {
	s := newSite(t).open()
	h := s.pages.Beside(http.NotFoundHandler())
	ask := func(target, accept string) *http.Response {
		r := httptest.NewRequest(http.MethodGet, target, nil)
		r.Header.Set("Accept", accept)
		r.Host = "localhost:8080"
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Result()
	}
	const browser = "text/html,application/xhtml+xml,*/*;q=0.8"
	if a := ask("/", browser); a.StatusCode != 302 || a.Header.Get("Location") != "/ui/" {
		t.Errorf("a browser at /: %d to %q", a.StatusCode, a.Header.Get("Location"))
	}
	for _, accept := range []string{"", "*/*", "application/json"} {
		if a := ask("/", accept); a.StatusCode != 404 {
			t.Errorf("a program that accepts %q at /: %d", accept, a.StatusCode)
		}
	}
	if a := ask("/ui/", browser); a.StatusCode != 200 {
		t.Errorf("the first page: %d", a.StatusCode)
	}
	s.get("/ui/nothing").is(404).says("There is no such page")
}

func TestAnswersCarryTheContentSecurityPolicy(t *testing.T) {
	s := newSite(t)
	for _, path := range append(paths("app1:orders:paid:1"), "/ui/assets/nothing") {
		a := s.get(path)
		csp := a.Header.Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'self'"} {
			if !strings.Contains(csp, want) {
				t.Errorf("%s: the policy %q lacks %s", path, csp, want)
			}
		}
		if strings.Contains(csp, "unsafe") || strings.Contains(csp, "data:") {
			t.Errorf("%s: the policy %q allows inline code", path, csp)
		}
		for name, want := range map[string]string{"X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer",
			"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"} {
			if got := a.Header.Get(name); got != want {
				t.Errorf("%s: %s is %q", path, name, got)
			}
		}
	}
}

func TestPagesHaveNoForeignAndNoInlineResources(t *testing.T) {
	s := newSite(t)
	s.keep("app1:orders:paid:1", notice.Content{URL: "https://shop.example/hook", Body: []byte(`{"see":"https://elsewhere.example/"}`)}, time.Hour)
	s.dead("app1:orders:paid:2", "https://shop.example/hook", notice.ReasonStatus5xx, `see <a href="https://elsewhere.example">here</a>`)
	for _, path := range append(paths("app1:orders:paid:1"), "/ui/notices/app1:orders:paid:2") {
		a := s.get(path)
		seen := map[string]bool{}
		a.each(func(n *html.Node) {
			for _, at := range n.Attr {
				switch at.Key {
				case "href", "src", "action", "formaction", "data", "poster", "srcset", "data-live":
					if !strings.HasPrefix(at.Val, "/ui/") && !strings.HasPrefix(at.Val, "#") {
						t.Errorf("%s: <%s %s=%q> leads elsewhere", path, n.Data, at.Key, at.Val)
					}
				case "style":
					t.Errorf("%s: <%s style=%q>", path, n.Data, at.Val)
				case "id":
					if seen[at.Val] {
						t.Errorf("%s: two elements have the id %q", path, at.Val)
					}
					seen[at.Val] = true
				}
				if strings.HasPrefix(at.Key, "on") {
					t.Errorf("%s: <%s %s=%q> is a script", path, n.Data, at.Key, at.Val)
				}
			}
			if (n.Data == "script" || n.Data == "style") && n.FirstChild != nil {
				t.Errorf("%s: <%s> with content", path, n.Data)
			}
			if (n.Data == "link" || n.Data == "script") && a.StatusCode == 200 {
				asset := attr(n, "href") + attr(n, "src")
				if got := s.get(asset); got.StatusCode != 200 || !strings.Contains(got.Header.Get("Cache-Control"), "immutable") {
					t.Errorf("%s: %s is answered with %d", path, asset, got.StatusCode)
				}
			}
		})
	}
}

func TestFirstPageIsSmall(t *testing.T) {
	s := newSite(t)
	sum := 0
	a := s.get("/ui/").is(200)
	sum += len(a.body)
	a.each(func(n *html.Node) {
		if n.Data == "link" || n.Data == "script" {
			sum += len(s.get(attr(n, "href") + attr(n, "src")).is(200).body)
		}
	})
	if sum > 150<<10 || sum < 10<<10 {
		t.Errorf("the first page takes %d bytes with all that it asks for", sum)
	}

	h := &physician{routes: []receivers.RouteHealth{{Prefix: "app1:orders"}}}
	for i := range 100 {
		h.routes[0].Receivers = append(h.routes[0].Receivers, receivers.Health{Name: fmt.Sprintf("shop%d.merchants.example:443", i),
			Since: time.Now().Add(-time.Hour), Failures: 38, Status: 500 + i, Reason: "status_5xx", Waiting: 23, Next: time.Now().Add(time.Minute)})
	}
	s.health = h
	if a := s.as(ui.Visitor{}).get("/ui/").is(200).says("more receivers failing"); len(a.body) > 40<<10 {
		t.Errorf("the first page has %d bytes where many receivers fail", len(a.body))
	}
}
