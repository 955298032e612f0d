package ui_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"notifier/internal/audit"
	"notifier/internal/auth"
	"notifier/internal/engine/enginetest"
	"notifier/internal/notice"
	"notifier/internal/ui"
	"notifier/internal/wire"
)

var (
	clients = []auth.Client{{Name: "ops", Token: "token-of-ops", Role: auth.Admin},
		{Name: "shop", Token: "token-of-shop", Prefix: "app1", Role: auth.Operate},
		{Name: "desk", Token: "token-of-desk", Prefix: "app1", Role: auth.Read},
		{Name: "two", Token: "token-of-two", Prefix: "app2", Role: auth.Operate}}
	serviceKey = []byte("32 bytes of a key of this service")[:wire.KeySize]
)

// instance is one of several with one Redis.
type instance struct {
	http.Handler
	office *auth.Sessions
}

// instances are the pages of several instances over one engine.
func instances(t testing.TB, n int, clients []auth.Client, change ...func(*ui.Options)) (*enginetest.Engine, []instance) {
	t.Helper()
	table := routes(t)
	engine := enginetest.New(t, table)
	list := make([]instance, n)
	for i := range list {
		office := auth.NewSessions(auth.SessionOptions{Keys: wire.FixedKey(serviceKey), Clients: auth.NewClients(clients),
			Register: engine})
		o := ui.Options{Engine: engine, Routes: table, Sessions: office, Loopback: true, Version: "test"}
		for _, f := range change {
			f(&o)
		}
		list[i] = instance{ui.New(o), office}
	}
	return engine, list
}

// browser is a visitor with cookies.
type browser struct {
	t       testing.TB
	h       http.Handler
	cookie  *http.Cookie
	headers []string
}

func (b *browser) do(method, target string, form url.Values, headers ...string) answer {
	b.t.Helper()
	r := httptest.NewRequest(method, target, strings.NewReader(form.Encode()))
	r.Host = "localhost:8080"
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	headers = append(b.headers[:len(b.headers):len(b.headers)], headers...)
	for i := 0; i+1 < len(headers); i += 2 {
		if headers[i] == "Host" {
			r.Host = headers[i+1]
			continue
		}
		r.Header.Set(headers[i], headers[i+1])
	}
	if b.cookie != nil {
		r.AddCookie(b.cookie)
	}
	w := httptest.NewRecorder()
	b.h.ServeHTTP(w, r)
	res := w.Result()
	for _, c := range res.Cookies() {
		if b.cookie = c; c.MaxAge < 0 {
			b.cookie = nil
		}
	}
	body, err := io.ReadAll(res.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	if got := res.Header.Get("Referrer-Policy"); got != "no-referrer" {
		b.t.Errorf("%s %s: the referrer policy is %q", method, target, got)
	}
	return answer{Response: res, body: string(body), t: b.t}
}

func (b *browser) get(target string, headers ...string) answer {
	b.t.Helper()
	return b.do(http.MethodGet, target, nil, headers...)
}

func signedIn(t testing.TB, h http.Handler, token string) *browser {
	t.Helper()
	b := &browser{t: t, h: h}
	if a := b.do(http.MethodPost, "/ui/sign-in", url.Values{"token": {token}}); a.StatusCode != 303 || b.cookie == nil {
		t.Fatalf("%d %s", a.StatusCode, a.body)
	}
	return b
}

var csrfField = regexp.MustCompile(`name="csrf" value="([^"]+)"`)

// csrf is the token of a page's forms.
func (b *browser) csrf() string {
	b.t.Helper()
	m := csrfField.FindStringSubmatch(b.get("/ui/").body)
	if m == nil {
		b.t.Fatal("no form has a token")
	}
	return m[1]
}

// sentToSignIn checks that a page asks who it is.
func (a answer) sentToSignIn(t testing.TB, what string) {
	t.Helper()
	if a.StatusCode != 303 || !strings.HasPrefix(a.Header.Get("Location"), "/ui/sign-in") || strings.Contains(a.body, "<main") {
		t.Errorf("%.60s: %d to %q: %.300s", what, a.StatusCode, a.Header.Get("Location"), a.body)
	}
}

func TestSignInAndOut(t *testing.T) {
	engine, at := instances(t, 2, clients)
	b := &browser{t: t, h: at[0]}
	b.get("/ui/").sentToSignIn(t, "/ui/")
	if a := b.get("/ui/notices?state=dead"); a.Header.Get("Location") != "/ui/sign-in?to=%2Fui%2Fnotices%3Fstate%3Ddead" {
		t.Errorf("%v", a.Header)
	}
	if a := b.get("/ui/sign-in?to=%2Fui%2Fnotices%3Fstate%3Ddead"); a.StatusCode != 200 || !strings.Contains(a.body, `name="token"`) ||
		!strings.Contains(a.body, `value="/ui/notices?state=dead"`) || strings.Contains(a.body, `href="/ui/"`) {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
	if a := b.get("/ui/stream", "Accept", "text/event-stream"); a.StatusCode != 401 {
		t.Errorf("%d", a.StatusCode)
	}
	if a := b.do("POST", "/ui/sign-in", url.Values{"token": {"wrong"}}); a.StatusCode != 401 || b.cookie != nil ||
		strings.Contains(a.body, "wrong") {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
	a := b.do("POST", "/ui/sign-in", url.Values{"token": {"token-of-shop"}, "to": {"/ui/notices?state=dead"}})
	c := b.cookie
	if a.StatusCode != 303 || a.Header.Get("Location") != "/ui/notices?state=dead" || c == nil || !c.HttpOnly ||
		c.SameSite != http.SameSiteStrictMode ||
		c.Secure || c.Path != "/ui/" || c.MaxAge < 43100 || c.MaxAge > 43200 {
		t.Fatalf("%d %v %+v", a.StatusCode, a.Header, c)
	}
	for i := range at {
		b.h = at[i]
		if a := b.get("/ui/"); a.StatusCode != 200 || !strings.Contains(a.body, "Sign out") || strings.Contains(a.body, "token-of") ||
			strings.Contains(a.body, "app2") {
			t.Errorf("instance %d: %d %s", i, a.StatusCode, a.body)
		}
	}
	if a := b.get("/ui/sign-in?to=%2Fui%2Fdead"); a.StatusCode != 303 || a.Header.Get("Location") != "/ui/dead" {
		t.Errorf("signed in already: %d %v", a.StatusCode, a.Header)
	}
	copied := *b.cookie
	csrf := b.csrf()
	for what, form := range map[string]url.Values{"none": nil, "empty": {"csrf": {""}}, "another": {"csrf": {csrf + "x"}}} {
		if a := b.do("POST", "/ui/sign-out", form); a.StatusCode != 403 || b.cookie == nil {
			t.Errorf("signed out with %s token: %d", what, a.StatusCode)
		}
	}
	if a := b.get("/ui/sign-out"); a.StatusCode == 303 || b.cookie == nil {
		t.Errorf("signed out by a GET: %d", a.StatusCode)
	}
	if a := b.do("POST", "/ui/sign-out", url.Values{"csrf": {csrf}}); a.StatusCode != 303 || b.cookie != nil {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
	for i := range at {
		(&browser{t: t, h: at[i], cookie: &copied}).get("/ui/").sentToSignIn(t, "a copy of a cookie after its sign-out")
	}
	list, err := engine.Audited(t.Context(), audit.Range{}, 10)
	if err != nil || len(list) != 2 || list[0].Action != audit.SignOut || list[1].Action != audit.SignIn || list[1].Client != "shop" ||
		list[1].Prefix != "app1" ||
		list[1].Via != audit.Pages || list[1].Address != "192.0.2.1" {
		t.Errorf("%+v, %v", list, err)
	}
}

func TestCookiesAreSecureBehindTLS(t *testing.T) {
	_, at := instances(t, 1, clients)
	for network, secure := range map[string]bool{"192.0.2.0/24": true, "198.51.100.0/24": false} { // requests come from 192.0.2.1
		b := &browser{t: t, h: auth.Proxies{netip.MustParsePrefix(network)}.Handler(at[0])}
		if b.do("POST", "/ui/sign-in", url.Values{"token": {"token-of-ops"}}, "X-Forwarded-Proto", "https"); b.cookie == nil ||
			b.cookie.Secure != secure {
			t.Errorf("%s: %+v", network, b.cookie)
		}
	}
	b := &browser{t: t, h: at[0]}
	if b.do("POST", "https://localhost:8080/ui/sign-in", url.Values{"token": {"token-of-ops"}}); b.cookie == nil || !b.cookie.Secure {
		t.Errorf("%+v", b.cookie)
	}
}

// After signing in, the browser stays within the pages, whatever a link says.
func TestSignInStaysWithinThePages(t *testing.T) {
	_, at := instances(t, 1, clients)
	for _, to := range []string{"", "https://evil.example/ui/", "//evil.example/ui/", "/ui/\\evil", "/\\evil.example", "javascript:alert(1)",
		"/v1/notices", "/ui", "ui/", "/ui/\r\nX: y", "http:/ui/"} {
		b := &browser{t: t, h: at[0]}
		if a := b.do("POST", "/ui/sign-in", url.Values{"token": {"token-of-ops"}, "to": {to}}); a.Header.Get("Location") != "/ui/" {
			t.Errorf("%q leads to %q", to, a.Header.Get("Location"))
		}
	}
}

func TestFailedSignInsAreLimited(t *testing.T) {
	_, at := instances(t, 1, clients)
	b := &browser{t: t, h: at[0]}
	for range 10 {
		if a := b.do("POST", "/ui/sign-in", url.Values{"token": {"wrong"}}); a.StatusCode != 401 {
			t.Fatalf("%d", a.StatusCode)
		}
	}
	if a := b.do("POST", "/ui/sign-in", url.Values{"token": {"wrong"}}); a.StatusCode != 429 || a.Header.Get("Retry-After") == "" ||
		b.cookie != nil {
		t.Errorf("%d %v", a.StatusCode, a.Header)
	}
	if a := b.do("POST", "/ui/sign-in", url.Values{"token": {"token-of-ops"}}); a.StatusCode != 303 || b.cookie == nil {
		t.Errorf("a correct token: %d %v", a.StatusCode, a.Header)
	}
}

// Forged cookies, and cookies of other tokens or services, are refused by every instance.
func TestForgedCookiesAreRefused(t *testing.T) {
	engine, at := instances(t, 2, clients)
	good := signedIn(t, at[0], "token-of-ops").cookie.Value
	table := routes(t)
	for what, office := range map[string]*auth.Sessions{
		"another token": auth.NewSessions(auth.SessionOptions{Keys: wire.FixedKey(serviceKey),
			Clients: auth.NewClients([]auth.Client{{Name: "ops", Token: "token-of-ops-2", Role: auth.Admin}}), Register: engine}),
		"another key": auth.NewSessions(auth.SessionOptions{Keys: wire.FixedKey(make([]byte, wire.KeySize)),
			Clients:  auth.NewClients(clients),
			Register: engine}),
		"no client": auth.NewSessions(auth.SessionOptions{Keys: wire.FixedKey(serviceKey), Clients: auth.NewClients(clients[1:]),
			Register: engine}),
	} {
		h := ui.New(ui.Options{Engine: engine, Routes: table, Sessions: office, Loopback: true})
		(&browser{t: t, h: h, cookie: &http.Cookie{Name: "notifier_session", Value: good}}).get("/ui/").sentToSignIn(t, what)
	}
	for _, forged := range []string{"x", "e30.x", good + "x", good[1:], strings.Replace(good, ".", "", 1), strings.Repeat("A", 5000)} {
		for i := range at {
			b := &browser{t: t, h: at[i], cookie: &http.Cookie{Name: "notifier_session", Value: forged}}
			b.get("/ui/").sentToSignIn(t, forged)
			b.get("/ui/notices/app1:orders:t:1").sentToSignIn(t, forged)
			if a := b.do("POST", "/ui/sign-out", url.Values{"csrf": {"x"}}); a.StatusCode != 303 {
				t.Errorf("%d", a.StatusCode)
			}
		}
	}
	// A valid cookie is found after the cookie of another service on this host.
	b := &browser{t: t, h: at[0], headers: []string{"Cookie", "notifier_session=another; notifier_session=" + good}}
	if a := b.get("/ui/"); a.StatusCode != 200 {
		t.Errorf("%d", a.StatusCode)
	}
}

func TestSessionsAreRefusedWhileRedisIsUnavailable(t *testing.T) {
	engine, at := instances(t, 1, clients)
	b := signedIn(t, at[0], "token-of-ops")
	engine.Fail(wire.ErrUnavailable)
	if a := b.get("/ui/"); a.StatusCode != 503 || b.cookie == nil || !strings.Contains(a.body, "Redis") {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
	engine.Fail(nil)
	if a := b.get("/ui/"); a.StatusCode != 200 {
		t.Errorf("%d", a.StatusCode)
	}
}

// Without clients every visitor may use the pages, unless another web page may have sent the request.
func TestPagesWithoutClients(t *testing.T) {
	_, at := instances(t, 2, nil, func(o *ui.Options) { o.Host = "box" })
	for host, want := range map[string]int{"localhost": 200, "LOCALHOST:80": 200, "localhost.": 200, "127.0.0.1:8080": 200,
		"[::1]:8080": 200, "[::1]": 200, "10.0.0.7:8080": 200, "box:8080": 200, "evil.example": 421, "evil.example:8080": 421,
		"localhost.evil.example": 421, "127.0.0.1.evil.example": 421, "": 421, "box.evil.example": 421} {
		b := &browser{t: t, h: at[0]}
		for _, path := range []string{"/ui/", "/ui/nothing-here"} {
			if a := b.get(path, "Host", host); (a.StatusCode == 421) != (want == 421) {
				t.Errorf("%s at %q: %d", path, host, a.StatusCode)
			}
		}
		if a := b.do("POST", "/ui/sign-out", nil, "Host", host); a.StatusCode != map[int]int{421: 421, 200: 403}[want] {
			t.Errorf("a change at %q: %d", host, a.StatusCode)
		}
	}
	b := &browser{t: t, h: at[0]}
	if a := b.get("/ui/sign-in"); a.StatusCode != 303 || a.Header.Get("Location") != "/ui/" {
		t.Errorf("%d", a.StatusCode)
	}
	b.get("/ui/")
	if b.cookie == nil || b.cookie.SameSite != http.SameSiteStrictMode {
		t.Fatalf("%+v", b.cookie)
	}
	if a := b.get("/ui/"); a.StatusCode != 200 || len(a.Cookies()) > 0 || strings.Contains(a.body, "Sign out") {
		t.Errorf("a second visit: %v %s", a.Cookies(), a.body)
	}
	_, far := instances(t, 1, nil, func(o *ui.Options) { o.Loopback = false })
	if a := (&browser{t: t, h: far[0]}).get("/ui/"); a.StatusCode != 403 {
		t.Errorf("from other machines: %d", a.StatusCode)
	}
}

// A change needs the token of the session's page, and must not come from another site.
func TestForgedRequestsChangeNothing(t *testing.T) {
	for name, who := range map[string][]auth.Client{"with clients": clients, "without": nil} {
		t.Run(name, func(t *testing.T) {
			_, at := instances(t, 2, who)
			b, other := &browser{t: t, h: at[0]}, &browser{t: t, h: at[0]}
			if who != nil {
				b, other = signedIn(t, at[0], "token-of-ops"), signedIn(t, at[0], "token-of-ops")
			}
			b.get("/ui/")
			other.get("/ui/")
			token := func(b *browser) string {
				s, err := at[0].office.Check(t.Context(), b.cookie.Value)
				if err != nil {
					t.Fatal(err)
				}
				return s.CSRF()
			}
			mine, others := token(b), token(other)
			for what, c := range map[string]struct {
				form    url.Values
				headers []string
			}{
				"no token":            {nil, nil},
				"another's token":     {url.Values{"csrf": {others}}, nil},
				"a token in the url":  {nil, nil},
				"a foreign origin":    {url.Values{"csrf": {mine}}, []string{"Origin", "https://evil.example"}},
				"a foreign site":      {url.Values{"csrf": {mine}}, []string{"Sec-Fetch-Site", "cross-site"}},
				"a neighbour's":       {url.Values{"csrf": {mine}}, []string{"Sec-Fetch-Site", "same-site", "Origin", "http://localhost:9000"}},
				"a frame in a cage":   {url.Values{"csrf": {mine}}, []string{"Sec-Fetch-Site", "cross-site", "Origin", "null"}},
				"null and no token":   {nil, []string{"Origin", "null"}},
				"a wrong header":      {url.Values{"csrf": {mine}}, []string{"X-CSRF-Token", others}},
				"another port's page": {url.Values{"csrf": {mine}}, []string{"Origin", "http://localhost:1234"}},
			} {
				target := "/ui/sign-out"
				if what == "a token in the url" {
					target += "?csrf=" + mine
				}
				if a := b.do("POST", target, c.form, c.headers...); a.StatusCode != 403 || b.cookie == nil {
					t.Errorf("%s: %d", what, a.StatusCode)
				}
			}
			if a := b.do("POST", "/ui/sign-in", url.Values{"token": {"token-of-two"}}, "Origin", "https://evil.example"); a.StatusCode != 403 {
				t.Errorf("signed in by a page of another site: %d", a.StatusCode)
			}
			cookie := b.cookie
			for _, headers := range [][]string{{"Sec-Fetch-Site", "same-origin", "Origin", "http://localhost:8080"}, {"Origin", "null"},
				{"Origin", "http://localhost:8080"}, {"Sec-Fetch-Site", "same-origin", "Origin", "null"}} {
				b.h, b.cookie = at[1], cookie
				if who != nil {
					b = signedIn(t, at[1], "token-of-ops")
				}
				if a := b.do("POST", "/ui/sign-out", url.Values{"csrf": {token(b)}}, headers...); a.StatusCode != 303 {
					t.Errorf("%v: the own page is refused: %d %s", headers, a.StatusCode, a.body)
				}
			}
		})
	}
}

// link makes a link and opens it.
func (i instance) link(t testing.TB, by auth.Caller, scope auth.LinkScope) (*auth.Link, *browser) {
	t.Helper()
	l, err := i.office.MakeLink(t.Context(), by, scope, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return l, &browser{t: t, h: i}
}

func TestLinkBecomesACookieAndACleanAddress(t *testing.T) {
	_, at := instances(t, 2, clients)
	l, b := at[0].link(t, auth.Caller{Name: "shop", Prefix: "app1"}, auth.LinkScope{Prefix: "app1:orders"})
	for i := range at { // any number of times, at every instance
		b = &browser{t: t, h: at[i]}
		a := b.get("/ui/portal/" + l.Token)
		if a.StatusCode != 303 || a.Header.Get("Location") != "/ui/opened" || b.cookie == nil || !b.cookie.HttpOnly ||
			b.cookie.SameSite != http.SameSiteStrictMode ||
			b.cookie.Name == "notifier_session" || b.cookie.MaxAge > 600 || a.Header.Get("Cache-Control") != "no-store" {
			t.Fatalf("%d %v %+v", a.StatusCode, a.Header, b.cookie)
		}
		// A browser that follows the link from another site withholds the cookie. It sends the
		// cookie with the next page.
		kept := b.cookie
		b.cookie = nil
		if a := b.get("/ui/opened"); a.StatusCode != 200 || !strings.Contains(a.body, `content="0; url=/ui/opened?again"`) || strings.Contains(a.body, l.Token) || strings.Contains(a.body, "app1") {
			t.Errorf("%d %s", a.StatusCode, a.body)
		}
		if a := b.get("/ui/opened?again"); a.StatusCode != 303 || a.Header.Get("Location") != "/ui/notices" {
			t.Errorf("without cookies: %d %v", a.StatusCode, a.Header)
		}
		b.cookie = kept
		if a := b.get("/ui/opened?again"); a.StatusCode != 303 || a.Header.Get("Location") != "/ui/notices" || b.cookie == nil ||
			b.cookie.Name != "notifier_session" ||
			b.cookie.MaxAge > 3600 || !b.cookie.HttpOnly || b.cookie.SameSite != http.SameSiteStrictMode {
			t.Fatalf("%d %v %+v", a.StatusCode, a.Header, b.cookie)
		}
		if a := b.get("/ui/notices"); a.StatusCode != 200 || strings.Contains(a.body, "app2") || strings.Contains(a.body, l.Token) {
			t.Errorf("%d %s", a.StatusCode, a.body)
		}
	}
	if a := b.get("/ui/notices", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate"); strings.Contains(a.body, "One moment") {
		t.Error("sent on although there is a cookie")
	}
	b.cookie = nil
	if a := b.get("/ui/notices?state=dead", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate"); a.StatusCode != 200 || !strings.Contains(a.body, `url=/ui/notices?state=dead"`) {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
}

func TestExpiredLinksAreRefused(t *testing.T) {
	_, at := instances(t, 2, clients)
	shop := auth.Caller{Name: "shop", Prefix: "app1"}
	l, b := at[0].link(t, shop, auth.LinkScope{Prefix: "app1:orders"})
	b.get("/ui/portal/" + l.Token)
	b.get("/ui/opened")
	if _, err := at[1].office.RevokeLink(t.Context(), shop, l.ID); err != nil {
		t.Fatal(err)
	}
	other, _ := at[0].link(t, shop, auth.LinkScope{Prefix: "app1:orders"})
	cookie := b.cookie
	for i := range at {
		b := &browser{t: t, h: at[i], cookie: cookie}
		b.get("/ui/").sentToSignIn(t, "the cookie of a link that was revoked")
		for what, token := range map[string]string{"revoked": l.Token, "changed": other.Token + "x", "its id": other.ID,
			"a cookie": cookie.Value, "a name": "admin"} {
			b := &browser{t: t, h: at[i]}
			if a := b.get("/ui/portal/" + token); a.StatusCode != 403 || b.cookie != nil || strings.Contains(a.body, "app1") {
				t.Errorf("%s: %d %s", what, a.StatusCode, a.body)
			}
		}
	}
}

// The pages for signing in cannot be framed by another page.
func TestSignInPagesCannotBeFramed(t *testing.T) {
	_, at := instances(t, 1, clients)
	b := signedIn(t, at[0], "token-of-ops")
	for _, path := range []string{"/ui/sign-in", "/ui/opened", "/ui/portal/x", "/ui/", "/ui/nothing"} {
		a := b.get(path)
		if a.Header.Get("X-Frame-Options") != "DENY" || !strings.Contains(a.Header.Get("Content-Security-Policy"), "frame-ancestors 'none'") {
			t.Errorf("%s: %v", path, a.Header)
		}
	}
}

// A link asks before its session replaces another one.
func TestLinkDoesNotReplaceASessionUnasked(t *testing.T) {
	_, at := instances(t, 1, clients)
	l, _ := at[0].link(t, auth.Caller{Name: "shop", Prefix: "app1"}, auth.LinkScope{Prefix: "app1:orders", Host: "shop.example"})
	other, _ := at[0].link(t, auth.Caller{Name: "shop", Prefix: "app1"}, auth.LinkScope{Prefix: "app1:orders", Host: "other.example"})
	b := signedIn(t, at[0], "token-of-ops")
	own, csrf := b.cookie, b.csrf()
	// both asks with the cookies of the session and of the link that was opened.
	both := func(method string, link *http.Cookie, form url.Values, headers ...string) (answer, []*http.Cookie) {
		t.Helper()
		b := &browser{t: t, h: at[0], cookie: link}
		a := b.do(method, "/ui/opened", form, append([]string{"Cookie", own.Name + "=" + own.Value}, headers...)...)
		return a, a.Cookies()
	}
	open := func(token string) *http.Cookie {
		t.Helper()
		b := &browser{t: t, h: at[0], cookie: own}
		for _, c := range b.get("/ui/portal/" + token).Cookies() {
			if c.Name == own.Name {
				t.Error("the link has replaced the session")
			}
		}
		return b.cookie
	}
	link := open(l.Token)
	a, set := both(http.MethodGet, link, nil)
	if a.StatusCode != 200 || !strings.Contains(a.body, "You are signed in as <strong>ops") || !strings.Contains(a.body, "app1:orders") ||
		len(set) != 0 {
		t.Errorf("before the answer: %d, %v: %s", a.StatusCode, set, a.body)
	}
	// From another site, and without the page's token, nothing changes.
	for name, v := range map[string]struct {
		form   url.Values
		header []string
	}{
		"no token": {nil, nil}, "a wrong token": {url.Values{"csrf": {"x"}}, nil},
		"another site": {url.Values{"csrf": {csrf}}, []string{"Sec-Fetch-Site", "cross-site", "Origin", "https://evil.example"}},
	} {
		if a, set := both(http.MethodPost, link, v.form, v.header...); a.StatusCode != 403 || len(set) != 0 {
			t.Errorf("%s: %d, %v", name, a.StatusCode, set)
		}
	}
	a, set = both(http.MethodPost, link, url.Values{"csrf": {csrf}})
	if a.StatusCode != 303 || a.Header.Get("Location") != "/ui/notices" || len(set) != 2 || set[1].Name != own.Name ||
		set[1].Value != link.Value || set[0].Name != link.Name || set[0].MaxAge >= 0 {
		t.Fatalf("%v, %v", a.Header, set)
	}
	// The same link does not ask again, another one does.
	own = set[1]
	if a, set = both(http.MethodGet, open(l.Token), nil); a.StatusCode != 303 || a.Header.Get("Location") != "/ui/notices" || len(set) != 2 {
		t.Errorf("%v, %v", a.Header, set)
	}
	if a, set := both(http.MethodGet, open(other.Token), nil); a.StatusCode != 200 ||
		!strings.Contains(a.body, "You have opened another link") || len(set) != 0 {
		t.Errorf("another link: %d, %v: %s", a.StatusCode, set, a.body)
	}
	// A link that has expired.
	if a, set := both(http.MethodPost, nil, url.Values{"csrf": {csrf}}); a.StatusCode != 403 || len(set) != 0 {
		t.Errorf("no link: %d, %v", a.StatusCode, set)
	}
}

func TestLinkOpensPagesOfNoticesOnly(t *testing.T) {
	s := newSite(t)
	s.keep("app1:orders:paid:1", notice.Content{URL: "https://shop.example/", Audience: "m17"}, time.Hour)
	x := subject{key: "app1:orders:paid:1", route: "orders", reason: "timeout", host: "shop.example", prefix: "app1:orders", link: "none"}
	allowed := []string{"GET /ui/notices", "GET /ui/notices/{key}", "GET /ui/live/notices/{key}", "GET /ui/dead", "GET /ui/dead/group"}
	for _, v := range []ui.Visitor{{Prefix: "app1:orders", Host: "shop.example"}, {Prefix: "app1:orders", Audience: "m17"}} {
		who := s.as(v)
		for pattern, role := range s.pages.Roles() {
			if role == auth.Public || pattern == "GET /ui/" {
				continue
			}
			for _, a := range asks(t, pattern, x) {
				if got := who.ask(a).StatusCode; (got == 403) == slices.Contains(allowed, pattern) {
					t.Errorf("%+v: %s is answered with %d", v, a, got)
				}
			}
		}
		who.get("/ui/nothing").is(404)
		for _, path := range []string{"/ui/", "/ui/routes", "/ui/receivers"} {
			who.get(path).is(403).says("This link shows notices only").saysNot("erp.example", "9 retries")
		}
	}
}
