package ui_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"notifier/internal/fleet"
	"notifier/internal/notice"
	"notifier/internal/ui"
)

// in asks for a page with a cookie and a header that name languages; an empty one is left out.
func (s *site) in(cookie, accept, target string) answer {
	s.t.Helper()
	r := httptest.NewRequest(http.MethodGet, target, nil)
	if cookie != "" {
		r.AddCookie(&http.Cookie{Name: "notifier_language", Value: cookie})
	}
	r.Header.Set("Accept-Language", accept)
	return s.do(r)
}

func TestLanguageIsThatOfTheCookieOrTheBrowser(t *testing.T) {
	s := newSite(t)
	for _, c := range []struct{ cookie, accept, want string }{
		{"", "", "en"}, {"", "zh-CN,zh;q=0.9,en;q=0.8", "zh-CN"}, {"", "de,zh-Hans;q=0.5,en;q=0.4", "zh-CN"},
		{"", "en-GB,en;q=0.9,zh;q=0.8", "en"}, {"", "ZH", "zh-CN"}, {"", "fr,*;q=0.1", "en"}, {"", "zh;q=0,en;q=0.1", "en"},
		{"en", "zh-CN", "en"}, {"zh-CN", "en", "zh-CN"}, {"tlh", "zh", "zh-CN"},
	} {
		for _, path := range []string{"/ui/routes", "/ui/nothing"} {
			a := s.in(c.cookie, c.accept, path)
			if got := a.Header.Get("Content-Language"); got != c.want || !strings.Contains(a.body, `<html lang="`+c.want+`">`) {
				t.Errorf("%s, cookie %q, header %q: %s, want %s", path, c.cookie, c.accept, got, c.want)
			}
		}
	}
}

func TestLanguageSwitchKeepsThePage(t *testing.T) {
	s := newSite(t)
	to := ""
	s.get("/ui/notices?state=dead&q=app1:x").each(func(n *html.Node) {
		if n.Data == "a" && attr(n, "lang") == "zh-CN" {
			to = attr(n, "href")
		}
	})
	a := s.get(to).is(http.StatusSeeOther)
	if got := a.Header.Get("Location"); got != "/ui/notices?state=dead&q=app1:x" {
		t.Errorf("the switch %s leads to %q", to, got)
	}
	c := a.Cookies()
	if len(c) != 1 || c[0].Name != "notifier_language" || c[0].Value != "zh-CN" || c[0].Path != "/ui/" || !c[0].HttpOnly ||
		c[0].SameSite != http.SameSiteLaxMode {
		t.Errorf("%v", c)
	}
	for _, back := range []string{"https://elsewhere.example/", "//elsewhere.example/ui/", "/v1/notices", ""} {
		if got := s.get("/ui/language?to=en&back=" + url.QueryEscape(back)).Header.Get("Location"); got != "/ui/" {
			t.Errorf("back to %q leads to %q", back, got)
		}
	}
	s.get("/ui/language?to=tlh").is(404)
}

// latin are the words that a Chinese page shows as they are: names, formats, and data of the test.
var latin = regexp.MustCompile(`(?i)\b(notifier|webhook-ids?|redis|utc|api|http|https|json|csv|sha-256|url|id|ip|cookie|unix|p50|p99|app|module|type|localhost|` +
	`yesterday|now|base64|base64url|v1|body|hmac-sha256|bytes|english|rsassa-pkcs1-v1_5|pub|sub|am|web-\d|test|msg_)\b`)

// untranslatedIn lists the Latin words of a page outside code, and outside elements that are marked as
// not to be translated.
func untranslatedIn(root *html.Node) (list []string) {
	add := func(s string) {
		s = latin.ReplaceAllString(s, "")
		for _, w := range regexp.MustCompile(`[A-Za-z][A-Za-z'_-]{1,}`).FindAllString(s, -1) {
			if !slices.Contains(list, w) {
				list = append(list, w)
			}
		}
	}
	var visit func(n *html.Node)
	visit = func(n *html.Node) {
		switch {
		case n.Type == html.TextNode:
			add(n.Data)
		case n.Type != html.ElementNode:
		case n.Data == "code" || n.Data == "pre" || n.Data == "script" || attr(n, "translate") == "no" || attr(n, "lang") == "en":
			return
		default:
			for _, name := range []string{"aria-label", "aria-description", "data-label", "data-lost", "data-held", "data-utc", "data-local"} {
				add(attr(n, name))
			}
		}
		for c := n.FirstChild; c != nil; c = c.NextSibling {
			visit(c)
		}
	}
	visit(root)
	return list
}

// names are the words of the test's data.
var fixtureWords = []string{"app", "app1", "app2", "orders", "fixed", "other", "shop", "example", "another", "erp", "paid", "timeout",
	"status_", "xx", "gone", "none", "nothing"}

func TestChinesePagesAreChinese(t *testing.T) {
	s := newSite(t)
	s.history, s.health, s.replays = &archive{}, &physician{}, &replayer{}
	s = s.as(ui.Visitor{})
	s.keep("app1:orders:paid:1", notice.Content{URL: "https://shop.example/"}, time.Hour)
	s.dead("app1:orders:paid:2", "https://shop.example/", notice.ReasonTimeout, "")
	s.engine.Tell(fleet.Figures{Routes: map[string]fleet.RouteFigures{"app1:orders": {InFlight: 3, Work: late(20)}},
		Hosts: []fleet.HostFigures{{Prefix: "app1:orders", Host: "shop.example:443", InFlight: 2, Slots: 8, Waiting: 9, Calls: 30, Failed: 30,
			Breaker: "open"}}},
		fleet.Instance{ID: "c", State: fleet.Unresponsive, About: fleet.About{Label: "web-3"}})

	x := subject{key: "app1:orders:paid:2", route: "orders", reason: "timeout", host: "shop.example", prefix: "app1:orders", link: "none"}
	pages := 0
	for _, a := range s.every(x) {
		if strings.HasPrefix(a.path, "/ui/live/") || a.method != http.MethodGet || strings.HasPrefix(a.path, "/ui/assets/") {
			continue
		}
		page := s.in("zh-CN", "", a.path)
		if !strings.HasPrefix(page.Header.Get("Content-Type"), "text/html") || page.Header.Get("Location") != "" {
			continue
		}
		pages++
		for _, w := range untranslatedIn(page.tree) {
			if !slices.Contains(fixtureWords, strings.ToLower(w)) {
				t.Errorf("%s shows %q", a, w)
			}
		}
	}
	if pages < 40 {
		t.Errorf("%d pages", pages)
	}
}

func TestLiveBlocksAreInTheVisitorsLanguage(t *testing.T) {
	s := newSite(t).running()
	s.keep("app1:orders:paid:1", notice.Content{URL: "https://shop.example/"}, time.Hour)
	for path, want := range map[string][2]string{"/ui/live/now": {"未发现问题", "No problems found"},
		"/ui/live/notices/app1:orders:paid:1": {"计划投递时间", "Due in"}} {
		for i, language := range []string{"zh-CN", "en"} {
			if text := s.streamIn(language, path).body; !strings.Contains(text, want[i]) || strings.Contains(text, want[1-i]) {
				t.Errorf("%s in %s: %s", path, language, text)
			}
		}
	}
}

// Text of a notice stays text, whichever language the page has, and cannot take the form of a message.
func TestMessagesEscapeWhatNoticesHold(t *testing.T) {
	s := newSite(t)
	const hostile = "<i>%s`**(s)</i>"
	s.engine.Miss(hostile)
	for _, language := range []string{"en", "zh-CN"} {
		a := s.in(language, "", "/ui/notices")
		if strings.Contains(a.body, "<i>") || !strings.Contains(a.body, html.EscapeString(hostile)) {
			t.Errorf("%s: %s", language, a.body)
		}
	}
}
