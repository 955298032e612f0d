package ui_test

import (
	"fmt"
	"html"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"notifier/internal/audit"
	"notifier/internal/auth"
)

// Visitors with a portal link add nothing to the audit of its creator, and cannot read it.
func TestSessionsOfLinksAreNotInTheAudit(t *testing.T) {
	engine, at := instances(t, 1, clients)
	l, b := at[0].link(t, auth.Caller{Name: "shop", Prefix: "app1"}, auth.LinkScope{Prefix: "app1:orders"})
	for range 3 {
		b.get("/ui/portal/" + l.Token)
		b.get("/ui/opened")
		if a := b.get("/ui/audit"); a.StatusCode != 403 {
			t.Errorf("the audit is answered with %d %s", a.StatusCode, a.body)
		}
		if a := b.get("/ui/notices"); strings.Contains(a.body, "/ui/audit") {
			t.Error("a page leads to the audit")
		}
		copied := *b.cookie
		if a := b.do("POST", "/ui/sign-out", url.Values{"csrf": {b.csrf()}}); a.StatusCode != 303 || b.cookie != nil {
			t.Fatalf("%d %s", a.StatusCode, a.body)
		}
		(&browser{t: t, h: at[0], cookie: &copied}).get("/ui/").sentToSignIn(t, "a copy of a link's cookie after its sign-out")
	}
	if list, err := engine.Audited(t.Context(), audit.Range{}, 10); err != nil || len(list) != 0 {
		t.Errorf("%+v, %v", list, err)
	}
}

func TestLinkWithTooManySessionsIsRefused(t *testing.T) {
	_, at := instances(t, 1, clients)
	l, b := at[0].link(t, auth.Caller{Name: "shop", Prefix: "app1"}, auth.LinkScope{Prefix: "app1:orders"})
	for range auth.MaxSessions {
		if _, _, err := at[0].office.Enter(t.Context(), l.Token); err != nil {
			t.Fatal(err)
		}
	}
	if a := b.get("/ui/portal/" + l.Token); a.StatusCode != 429 || a.Header.Get("Retry-After") == "" || b.cookie != nil ||
		!strings.Contains(a.body, "Sign out") {
		t.Errorf("%d %v %s", a.StatusCode, a.Header, a.body)
	}
	signedIn(t, at[0], "token-of-shop") // its maker is not held up
}

// A cursor of the audit is sealed for one client and one search.
func TestCursorOfTheAuditIsSealed(t *testing.T) {
	engine, at := instances(t, 1, clients)
	for i := range 250 {
		who := []string{"ops", "shop"}[i%2]
		if err := engine.Audit(t.Context(), audit.Entry{Client: who, Action: audit.Cancel, Key: fmt.Sprintf("app1:orders:paid:%03d", i),
			Result: audit.Done}); err != nil {
			t.Fatal(err)
		}
	}
	ops, shop := signedIn(t, at[0], "token-of-ops"), signedIn(t, at[0], "token-of-shop")
	older := regexp.MustCompile(`href="(/ui/audit\?[^"]+)"`)
	keys := regexp.MustCompile(`app1:orders:paid:\d{3}</code>`)
	seen, next := map[string]bool{}, "/ui/audit"
	for pages := 0; next != ""; pages++ {
		a := ops.get(next)
		if a.StatusCode != 200 || pages > 5 {
			t.Fatalf("page %d: %d %s", pages, a.StatusCode, a.body)
		}
		for _, k := range keys.FindAllString(a.body, -1) {
			seen[k] = true
		}
		m := older.FindStringSubmatch(a.body)
		if next = ""; m != nil {
			next = html.UnescapeString(m[1])
			if strings.Contains(next, "before=") || regexp.MustCompile(`\d{13}-`).MatchString(next) {
				t.Errorf("%s names an entry", next)
			}
			for what, x := range map[string]answer{"another client": shop.get(next),
				"another search": ops.get(strings.Replace(next, "prefix=", "prefix=app1", 1)), "a changed one": ops.get(next + "x")} {
				if x.StatusCode != 400 {
					t.Errorf("%s: %d", what, x.StatusCode)
				}
			}
		}
	}
	if len(seen) != 250 {
		t.Errorf("%d of 250 entries", len(seen))
	}
	if a := ops.get("/ui/audit?cursor=1795248000000-0"); a.StatusCode != 400 {
		t.Errorf("a cursor that is not sealed: %d", a.StatusCode)
	}
}
