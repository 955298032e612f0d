package acceptance

import (
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"notifier/client"
)

// person is a browser with its cookie, which may call any instance.
type person struct {
	t      *testing.T
	cookie *http.Cookie
}

// do asks an instance, with a form if there is one, and keeps the cookie that it gives.
func (p *person) do(s *service, path string, form url.Values) (status int, body string) {
	p.t.Helper()
	method := http.MethodGet
	if form != nil {
		method = http.MethodPost
	}
	req, err := http.NewRequestWithContext(p.t.Context(), method, s.url+path, strings.NewReader(form.Encode()))
	if err != nil {
		p.t.Fatal(err)
	}
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if p.cookie != nil {
		req.AddCookie(p.cookie)
	}
	res, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req) // which follows no redirection
	if err != nil {
		p.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	for _, c := range res.Cookies() {
		if p.cookie = c; c.MaxAge < 0 {
			p.cookie = nil
		}
	}
	return res.StatusCode, string(raw)
}

// sees and refused are whether an instance lets him in.
func (p *person) sees(s *service, what string) {
	p.t.Helper()
	if status, body := p.do(s, "/ui/notices", nil); status != http.StatusOK || !strings.Contains(body, "Sign out") {
		p.t.Errorf("%s: %s answers %d: %.300s", what, s.url, status, body)
	}
}

func (p *person) refused(s *service, what string) {
	p.t.Helper()
	for _, path := range []string{"/ui/notices", "/ui/notices/app1:pay:n:1", "/ui/live/notices/app1:pay:n:1"} {
		if status, body := p.do(s, path, nil); status != http.StatusSeeOther || strings.Contains(body, "app1:pay") {
			p.t.Errorf("%s: %s%s answers %d: %.300s", what, s.url, path, status, body)
		}
	}
}

var csrfOf = regexp.MustCompile(`name="csrf" value="([^"]+)"`)

// signOut ends the session by the button of a page.
func (p *person) signOut(s *service) {
	p.t.Helper()
	_, page := p.do(s, "/ui/notices", nil)
	m := csrfOf.FindStringSubmatch(page)
	if m == nil {
		p.t.Fatalf("no button to sign out: %s", page)
	}
	if status, body := p.do(s, "/ui/sign-out", url.Values{"csrf": {m[1]}}); status != http.StatusSeeOther || p.cookie != nil {
		p.t.Fatalf("signing out is answered with %d: %s", status, body)
	}
}

// Every instance accepts sessions and links. After a sign-out, a revoked link or a changed
// token, every instance refuses the sessions and links concerned.
func TestSessionsAndLinksHoldAtAllInstances(t *testing.T) {
	db := newRedis(t)
	env := func(token string) []string {
		return []string{"NOTIFIER_CLIENTS=ops,shop", "NOTIFIER_CLIENT_OPS_TOKEN=token-of-the-operators-0123456789",
			"NOTIFIER_CLIENT_SHOP_TOKEN=" + token, "NOTIFIER_CLIENT_SHOP_PREFIX=app1",
			"NOTIFIER_CLIENT_OPS_ROLE=admin", "NOTIFIER_CLIENT_SHOP_ROLE=operate"}
	}
	const old, changed = "token-of-the-shop-old-0123456789", "token-of-the-shop-new-0123456789"
	pay := route("pay", "app1:pay", "notice", "ALLOW=127.0.0.0/8")
	a, b := launch(t, db.URL(), pay, env(old)), launch(t, db.URL(), pay, env(old))
	if _, err := a.as(old).Schedule(t.Context(), client.Request{Key: "app1:pay:n:1", Delay: time.Hour,
		URL: "https://shop.example/"}); err != nil {
		t.Fatal(err)
	}
	signIn := func(s *service, token string) *person {
		t.Helper()
		p := &person{t: t}
		if status, body := p.do(s, "/ui/sign-in", url.Values{"token": {token}}); status != http.StatusSeeOther || p.cookie == nil {
			t.Fatalf("signing in is answered with %d: %s", status, body)
		}
		return p
	}
	open := func(s *service, link *client.PortalLink) (*person, int) {
		t.Helper()
		u, err := url.Parse(link.URL)
		if err != nil {
			t.Fatal(err)
		}
		p := &person{t: t}
		status, _ := p.do(s, u.Path, nil)
		if p.cookie != nil {
			p.do(s, "/ui/opened", nil)
		}
		return p, status
	}
	makeLink := func(s *service) *client.PortalLink {
		t.Helper()
		l, err := s.as(old).PortalLink(t.Context(), client.PortalLinkRequest{Prefix: "app1:pay", Host: "shop.example"})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}

	p := signIn(a, old)
	p.sees(a, "signed in here")
	p.sees(b, "signed in at the other")
	copied := &person{t, p.cookie}
	p.signOut(b)
	copied.refused(a, "the copy of a cookie after its sign-out at the other")
	copied.refused(b, "the copy of a cookie after its sign-out")

	link := makeLink(a)
	guest, _ := open(b, link)
	guest.sees(a, "a link that was made here and opened at the other")
	guest.sees(b, "a link")
	if err := a.as(old).RevokePortalLink(t.Context(), link.ID); err != nil {
		t.Fatal(err)
	}
	for _, s := range []*service{a, b} {
		guest.refused(s, "the cookie of a link that was revoked")
		if p, status := open(s, link); status != http.StatusForbidden || p.cookie != nil {
			t.Errorf("a link that was revoked is answered with %d", status)
		}
	}

	// The token of one client is changed, instance by instance, as on a deployment.
	stays, ends, kept := signIn(a, "token-of-the-operators-0123456789"), signIn(b, old), makeLink(a)
	seer, _ := open(b, kept)
	for _, s := range []*service{a, b} {
		s.stop(waitTimeout)
	}
	a, b = launch(t, db.URL(), pay, env(changed)), launch(t, db.URL(), pay, env(changed))
	for _, s := range []*service{a, b} {
		stays.sees(s, "a session of another client")
		ends.refused(s, "a session of a token that was changed")
		seer.refused(s, "the cookie of a link of a token that was changed")
		if p, status := open(s, kept); status != http.StatusForbidden || p.cookie != nil {
			t.Errorf("a link of a token that was changed is answered with %d", status)
		}
		signIn(s, changed).sees(s, "the new token")
	}
}
