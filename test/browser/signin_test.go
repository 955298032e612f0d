//go:build !quick

package browser

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// A client sees its own notices after signing in and none after signing out. A link shows a merchant the
// own notices only.
func TestSignInAndLinks(t *testing.T) {
	s := start(t, "NOTIFIER_CLIENTS", "ops,desk", "NOTIFIER_CLIENT_OPS_TOKEN", "token-of-the-operators-0123456789",
		"NOTIFIER_CLIENT_DESK_TOKEN", "token-of-the-desk-0123456789abcdef", "NOTIFIER_CLIENT_DESK_PREFIX", "shop:paid",
		"NOTIFIER_CLIENT_DESK_ROLE", "read", "NOTIFIER_CLIENT_OPS_ROLE", "admin")
	s.token = "token-of-the-operators-0123456789"
	s.keep("shop:paid:notice:1", "/ok", time.Hour, "scheduled")
	s.keep("shop:refund:notice:2", "/ok", time.Hour, "scheduled")
	b := browse(t, s)
	b.refused = true // a token that no client has is a 401, which the browser reports

	b.open("/ui/notices?q=part%3Dnotice")
	b.sees("Client token")
	b.types(`input[name=token]`, "token-of-nobody"+kb.Enter)
	b.sees("Invalid token.")
	b.types(`input[name=token]`, "token-of-the-desk-0123456789abcdef"+kb.Enter)
	b.sees("shop:paid:notice:1") // he goes on to where he wanted to be
	b.sees("desk")
	if strings.Contains(b.text(), "shop:refund") {
		t.Error("a client with a prefix sees what is not under it")
	}
	b.open("/ui/notices/shop:paid:notice:1")
	b.sees("Due in")
	if strings.Contains(b.text(), "Cancel") {
		t.Error("a client that may only look is offered to cancel")
	}
	b.click(`form[action="/ui/sign-out"] button`)
	b.sees("Client token")
	b.open("/ui/notices/shop:paid:notice:1")
	b.sees("Client token")

	var link struct{ URL string }
	s.call(http.MethodPost, "/v1/portal-links", `{"prefix":"shop:paid","host":"127.0.0.1","label":"Shop Blue"}`, &link)
	b.do(chromedp.Navigate(link.URL))
	b.sees("Notices to 127.0.0.1")
	b.sees("Shop Blue")
	b.sees("shop:paid:notice:1")
	if text := b.text(); strings.Contains(text, "ops") || strings.Contains(text, "Audit") {
		t.Errorf("a link shows its maker or the audit: %s", text)
	}
	if at := js[string](b, "location.href"); strings.Contains(at, "portal") {
		t.Errorf("the link stays in the address: %s", at)
	}
	b.open("/ui/notices/shop:refund:notice:2")
	b.sees("No notice is kept under this key")
}
