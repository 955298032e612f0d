//go:build !quick

package browser

import (
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"notifier/internal/testkit"
)

// signIn signs in with a client's token, and leads to the first page.
func (b *tab) signIn(token string) {
	b.t.Helper()
	b.open("/ui/")
	b.types(`input[name=token]`, token+kb.Enter)
}

// While Redis is unavailable, the first page shows the age of its figures and is not called live. Other
// pages keep their navigation, and all pages recover without a reload by hand.
func TestPagesOutliveRedis(t *testing.T) {
	s := start(t, "NOTIFIER_CLIENTS", "ops", "NOTIFIER_CLIENT_OPS_TOKEN", "token-of-the-operators-0123456789", "NOTIFIER_CLIENT_OPS_ROLE",
		"admin")
	s.token = "token-of-the-operators-0123456789"
	s.keep("shop:paid:notice:1", "/ok", time.Hour, "scheduled")
	b := browse(t, s)
	b.refused = true // the test expects 503
	b.signIn(s.token)
	b.sees("Live")

	s.redis.Pause()
	b.sees("These figures are from ")
	b.sees("Outdated")
	if text := b.text(); strings.Contains(text, "No problems found") || strings.Contains(text, "● Live") {
		t.Errorf("a page without figures claims that all is well: %s", text)
	}
	b.open("/ui/notices")
	b.sees("This page reloads every 5 s until it is available.")
	b.sees("Dead letters") // the navigation
	s.redis.Unpause()
	b.sees("Download CSV")

	b.open("/ui/")
	b.sees("Live")
	testkit.Until(t, "what doctor found meanwhile goes away", func() bool { return !strings.Contains(b.text(), "does not answer") })
	s.redis.Pause()
	b.sees("Not connected") // once the server cannot check the session
	s.redis.Unpause()
	b.sees("Live")
}

// On a phone a group of dead letters is a card with two lines of the response. On a wide screen a key is
// not broken.
func TestListsFitTheScreen(t *testing.T) {
	s := start(t)
	b := browse(t, s)
	s.keep("shop:refund:notice:d1", "/long", 0, "dead")
	long := "shop:paid:notice:" + strings.Repeat("2026112200", 4)
	s.keep(long, "/ok", time.Hour, "scheduled")

	b.open("/ui/dead")
	columns := `[...document.querySelector("thead").querySelectorAll("th")].map(h => h.innerText).join(",")`
	if got := js[string](b, columns); got != "Route,Count,Reason,First – last death" {
		t.Errorf("columns %s", got)
	}
	group := js[string](b, `document.querySelector("a[href*='/ui/dead/group']").getAttribute("href")`)
	b.open(group)
	if got := js[string](b, columns); got != "Host,Count,First – last seen,Last response" {
		t.Errorf("columns of a group %s", got)
	}
	b.do(chromedp.EmulateViewport(390, 844))
	b.open(group)
	if lines := js[float64](b, `(() => { const e = document.querySelector(".answer code"); return e.clientHeight / parseFloat(getComputedStyle(e).lineHeight); })()`); lines > 2.2 {
		t.Errorf("an answer takes %v lines", lines)
	}
	if wide := js[bool](b, `document.querySelector(".stack").scrollWidth > 390 || getComputedStyle(document.querySelector(".stack tbody tr")).display !== "block"`); wide {
		t.Error("a group is no card")
	}
	b.do(chromedp.EmulateViewport(1280, 900))

	b.open("/ui/notices?q=2026112200")
	got := js[string](b, `(() => {
  const code = document.querySelector(".list th code"), lines = [];
  for (const node of code.childNodes) {
    if (node.nodeType !== Node.TEXT_NODE) continue;
    const r = document.createRange();
    r.selectNodeContents(node);
    if (r.getClientRects().length > 1) lines.push(node.nodeValue);
  }
  return lines.join(" ");
})()`)
	if got != "" {
		t.Errorf("the key breaks inside %s", got)
	}
}
