//go:build !quick

package browser

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"notifier/internal/testkit"
)

// One browser and one service serve all parts, since each takes a second or two to start.
func TestPages(t *testing.T) {
	s := start(t, "NOTIFIER_HISTORY_URL", "sqlite://"+filepath.Join(t.TempDir(), "history.db"))
	b := browse(t, s)
	for i := range 6 {
		s.keep(fmt.Sprintf("shop:refund:notice:d%d", i), "/down", 0, "dead")
	}
	s.keep("shop:paid:notice:done", "/ok", 0, "delivered")
	s.keep("shop:paid:notice:20261122001", "/ok", 30*time.Minute, "scheduled")
	s.holdReceivers()
	var defined struct{}
	s.call(http.MethodPut, "/v1/recurrences/shop:paid:daily:books", `{"cron":"0 2 * * *","zone":"Asia/Shanghai","url":"`+s.shop.URL+`/ok"}`,
		&defined)
	group := "/ui/dead/group?" + url.Values{"route": {"refunds"}, "reason": {"status_5xx"}, "host": {"127.0.0.1"}}.Encode()
	pages := []string{"/ui/", "/ui/notices", "/ui/notices/shop:paid:notice:20261122001", "/ui/notices/shop:refund:notice:d0", "/ui/dead",
		group, "/ui/receivers", "/ui/receivers/" + strings.TrimPrefix(s.shop.URL, "http://"), "/ui/routes", "/ui/doctor", "/ui/audit",
		"/ui/receivers/" + strings.TrimPrefix(s.shop.URL, "http://") + "/redeliver?route=refunds&preview=1",
		"/ui/notices?q=shop:refund:+7d", "/ui/history", "/ui/replays", "/ui/replays/new?preview=1&since=-1h", "/ui/recurrences"}

	t.Run("find, open, fire, cancel", func(t *testing.T) { findAndChange(b.for_(t)) })
	t.Run("redrive a group, purge another", func(t *testing.T) { redrive(b.for_(t)) })
	t.Run("pause and resume", func(t *testing.T) { pause(b.for_(t)) })
	t.Run("live", func(t *testing.T) { live(b.for_(t)) })
	t.Run("a live notice", func(t *testing.T) { liveNotice(b.for_(t)) })
	t.Run("keyboard only", func(t *testing.T) { keyboard(b.for_(t), pages) })
	t.Run("names, contrast and width", func(t *testing.T) { looks(b.for_(t), pages) })
	t.Run("in Chinese", func(t *testing.T) { inChinese(b.for_(t), pages) })
	t.Run("without JavaScript", func(t *testing.T) { plain(b.for_(t)) })
}

// holdReceivers pauses and limits receivers, and redirects notices of one that has none.
func (s *service) holdReceivers() {
	s.t.Helper()
	var answer struct{}
	until := time.Now().Add(3 * time.Hour).Truncate(time.Second).UTC().Format(time.RFC3339)
	s.call(http.MethodPost, "/v1/receivers/pause", `{"host":"next.example","until":"`+until+`"}`, &answer)
	s.call(http.MethodPost, "/v1/receivers/pause", `{"audience":"m17","prefix":"shop:paid"}`, &answer)
	s.call(http.MethodPut, "/v1/receivers/limits", `{"host":"`+strings.TrimPrefix(s.shop.URL, "http://")+`","rate":"5/s","concurrency":2}`, &answer)
	s.call(http.MethodPost, "/v1/redirects", `{"from":"https://shop.example/hooks","to":"https://new.example/hooks","prefix":"shop:paid"}`, &answer)
}

// for_ is the same page for a part of a test.
func (b *tab) for_(t *testing.T) *tab {
	s := *b.s
	s.t = t
	return &tab{t: t, ctx: b.ctx, s: &s}
}

func findAndChange(b *tab) {
	b.s.keep("shop:paid:notice:4711", "/ok", time.Hour, "scheduled")
	b.s.keep("shop:paid:notice:4712", "/ok", time.Hour, "scheduled")
	b.open("/ui/notices")
	b.types(`input[name=q]`, "4711"+kb.Enter)
	testkit.Until(b.t, "the number leads to the notice", func() bool { return strings.HasSuffix(js[string](b, "location.pathname"), ":4711") })
	b.sees("Due in")
	b.sees(`"currency": "EUR"`)
	b.click(`details:has(form[action$="/fire"]) summary`)
	b.click(`form[action$="/fire"] button`)
	b.sees("The notice is due now.")
	b.s.await("shop:paid:notice:4711", "delivered")
	b.open("/ui/notices/shop:paid:notice:4711")
	b.sees("Delivered")
	b.click(`#do-resend summary`)
	b.click(`#do-resend button`)
	b.sees("The notice is sent once more, and its ladder restarts.")
	b.sees("by attempt 2") // the page is live
	b.sees("Resent, ladder restarted")

	b.open("/ui/notices/shop:paid:notice:4712")
	b.click(`details:has(form[action$="/reschedule"]) summary`)
	b.types(`input[name=due]`, "+3h")
	b.click(`form[action$="/reschedule"] button`)
	b.sees("The notice is rescheduled.")
	b.sees("Due in 2h59m")
	b.click(`details:has(form[action$="/test"]) summary`)
	b.click(`form[action$="/test"] button`)
	b.sees("The receiver acknowledged the test.")
	b.sees("notifier-key: shop:paid:test:test") // it is no secret
	b.click(`a[href="/ui/notices/shop:paid:notice:4712"]`)
	b.click(`details:has(form[action$="/cancel"]) summary`)
	b.click(`form[action$="/cancel"] button`)
	b.sees("The notice is cancelled.")
	b.s.await("shop:paid:notice:4712", "cancelled")
	b.open("/ui/audit")
	for _, did := range []string{"cancel", "send-test", "reschedule", "fire", "resend", "shop:paid:notice:4711"} {
		b.sees(did)
	}
}

func redrive(b *tab) {
	b.s.keep("shop:refund:notice:g1", "/gone", 0, "dead")
	b.open("/ui/dead?route=refunds")
	b.sees("status_5xx")
	b.click(`a[href*="reason=status_5xx"]`)
	b.sees(`<script>document.title='taken'</script>`) // as text
	if title := js[string](b, "document.title"); strings.Contains(title, "taken") {
		b.t.Errorf("an answer ran as a script: %s", title)
	}
	b.sees("Redrive 6 notices")
	js[string](b, `document.querySelector("select[name=rate]").selectedOptions[0].value = "6/h"`) // none dies again during the test
	b.click(`form[action="/ui/dead/redrive"] button`)
	b.sees("6 notices of refunds scheduled again, at 6/h.")
	b.s.await("shop:refund:notice:d5", "scheduled")
	b.open("/ui/dead?route=refunds")
	b.click(`a[href*="reason=gone"]`)
	b.sees("Purge 1 notice")
	b.click(`form[action="/ui/dead/purge"] button`) // the box is not ticked: the browser says so
	if js[bool](b, `document.querySelector("#sure").checkValidity()`) {
		b.t.Error("a purge needs no tick")
	}
	b.click(`#sure`)
	b.click(`form[action="/ui/dead/purge"] button`)
	b.sees("1 notice purged.")
	b.s.await("shop:refund:notice:g1", "cancelled")
	for i := range 6 { // restores them for the next parts
		b.s.keep(fmt.Sprintf("shop:refund:notice:e%d", i), "/down", 0, "dead")
	}
}

func pause(b *tab) {
	b.open("/ui/routes")
	b.click(`details:has(form[action="/ui/routes/payments/pause"]) summary`)
	b.click(`form[action="/ui/routes/payments/pause"] button`)
	b.sees("The route is paused.")
	b.s.keep("shop:paid:notice:waits", "/ok", 0, "scheduled")
	b.open("/ui/")
	b.sees("payments is paused")
	b.click(`form[action="/ui/routes/payments/resume"] button`)
	b.sees("The route is resumed.")
	b.s.await("shop:paid:notice:waits", "delivered")
}

// Live blocks change without moving the selection or the focus of the keyboard.
func live(b *tab) {
	b.open("/ui/")
	b.sees("Live")
	const card = `[...document.querySelectorAll(".card")].find(c => c.innerText.includes("shop:mail")).innerText`
	b.focus(`.card a`)
	js[bool](b, `(window.stood = document.activeElement, true)`)
	before := js[string](b, card)
	for i := range 3 {
		b.s.keep(fmt.Sprintf("shop:mail:welcome:%d", i), "", 40*time.Minute, "scheduled")
	}
	testkit.Until(b.t, "3 more are pending, without a reload", func() bool { return strings.Contains(js[string](b, card), "3 pending") })
	if strings.Contains(before, "3 pending") || !js[bool](b, `document.activeElement === window.stood && document.contains(window.stood)`) {
		b.t.Errorf("the focus has left the link, or the count was 3 before: %s", before)
	}
	b.click(`#live-hold`)
	b.sees("Updates paused")
	b.s.keep("shop:mail:welcome:9", "", 40*time.Minute, "scheduled")
	testkit.Until(b.t, "another page shows 4", func() bool { // while this page is paused
		res, err := http.Get(b.s.address + "/ui/")
		if err != nil {
			b.t.Fatal(err)
		}
		defer func() { _ = res.Body.Close() }()
		page, err := io.ReadAll(res.Body)
		return err == nil && strings.Contains(string(page), "<strong>4</strong> pending")
	})
	if !strings.Contains(js[string](b, card), "3 pending") {
		b.t.Error("a paused page has changed")
	}
	b.click(`#live-hold`)
	testkit.Until(b.t, "4 are pending", func() bool { return strings.Contains(js[string](b, card), "4 pending") })
}

// The page of a notice shows its changes, and keeps the scroll position, open forms and typed text.
func liveNotice(b *tab) {
	const key = "shop:paid:notice:watched"
	b.s.keep(key, "/down", time.Hour, "scheduled")
	b.do(chromedp.EmulateViewport(1280, 400))
	defer b.do(chromedp.EmulateViewport(1280, 900))
	b.open("/ui/notices/" + key)
	b.sees("Live")
	if b.shows("#live-again") {
		b.t.Error("a page that is live offers to load it again")
	}
	b.click(`#do-reschedule summary`)
	b.types(`input[name=due]`, "+9")
	at := js[float64](b, `(window.same = true, window.scrollTo(0, 150), window.scrollY)`)
	var fired struct{}
	b.s.call(http.MethodPost, "/v1/notices/"+key+"/fire", "", &fired)
	b.sees("Not delivered yet, after 1 attempt")
	b.sees("the database is unavailable") // the answer, in its way
	if !js[bool](b, `window.same && document.getElementById("do-reschedule").open && document.querySelector("input[name=due]").value === "+9" && document.activeElement.name === "due"`) {
		b.t.Errorf("the typed text is gone: %s", js[string](b, `document.getElementById("doing").outerHTML`))
	}
	if now := js[float64](b, "window.scrollY"); at < 100 || now != at {
		b.t.Errorf("scrolled from %v to %v by itself", at, now)
	}
}

// shows reports whether an element is visible.
func (b *tab) shows(selector string) bool {
	b.t.Helper()
	return js[bool](b, fmt.Sprintf("document.querySelector(%q).checkVisibility()", selector))
}

// The focus follows the order of reading, every stop is visible, and the keyboard is enough for every
// action.
func keyboard(b *tab, pages []string) {
	for _, page := range pages {
		b.open(page)
		if js[bool](b, `"live" in document.body.dataset`) {
			b.sees("Live")
			b.click("#live-hold") // changes of the page would disturb the check
		}
		stops := js[int](b, `(window.stops = [...document.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex='0']")].filter(e => e.type !== "hidden" && e.checkVisibility()), window.stops.length)`)
		js[bool](b, `(window.scrollTo(0, 0), getSelection().removeAllRanges(), document.body.tabIndex = -1, document.body.focus(), true)`)
		for i := range min(stops, 25) {
			b.do(chromedp.KeyEvent(kb.Tab))
			if !js[bool](b, fmt.Sprintf(`document.activeElement === window.stops[%d]`, i)) {
				b.t.Errorf("%s: stop %d of the keyboard is %s, want %s", page, i, js[string](b, `document.activeElement.outerHTML.slice(0, 120)`),
					js[string](b, fmt.Sprintf(`window.stops[%d].outerHTML.slice(0, 120)`, i)))
				break
			}
			if js[string](b, `getComputedStyle(document.activeElement).outlineStyle`) == "none" {
				b.t.Errorf("%s: focus cannot be seen on %s", page, js[string](b, `document.activeElement.outerHTML.slice(0, 120)`))
			}
		}
	}
	b.s.keep("shop:paid:notice:keys", "/ok", time.Hour, "scheduled")
	b.open("/ui/notices")
	testkit.Until(b.t, "the field has the focus", func() bool { return js[string](b, "document.activeElement.name || ''") == "q" })
	b.do(chromedp.KeyEvent("part=keys"), chromedp.KeyEvent(kb.Enter))
	testkit.Until(b.t, "the search is shown", func() bool { return strings.Contains(js[string](b, "location.search"), "q=part%3Dkeys") })
	b.sees("shop:paid:notice:keys")
	b.types(`a[href="/ui/notices/shop:paid:notice:keys"]`, kb.Enter)
	b.sees("Due in")
	b.types(`details:has(form[action$="/cancel"]) summary`, kb.Enter+kb.Tab+kb.Enter)
	b.sees("The notice is cancelled.")
}

// contrast is the lowest contrast between a text of the page and its background, with the element.
const contrast = `(() => {
  const rgb = (s) => { const m = s.match(/[\d.]+/g).map(Number); return m.length > 3 ? m : [...m, 1]; };
  const lum = ([r, g, b]) => [r, g, b].map(v => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4).reduce((a, v, i) => a + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (e) => { for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor); if (c[3] > 0.99) return c; } return [255, 255, 255, 1]; };
  let least = [99, ""];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const e = walk.currentNode.parentElement;
    if (!walk.currentNode.nodeValue.trim() || !e.checkVisibility() || e.closest("script, .out, .skip, option")) continue;
    const style = getComputedStyle(e);
    const a = lum(rgb(e.closest("svg") ? style.fill : style.color)), c = lum(behind(e));
    const ratio = (Math.max(a, c) + 0.05) / (Math.min(a, c) + 0.05);
    if (ratio < least[0]) least = [ratio, e.outerHTML.slice(0, 160)];
  }
  return { ratio: least[0], where: least[1] };
})()`

func looks(b *tab, pages []string) {
	type least struct {
		Ratio float64
		Where string
	}
	for _, page := range pages {
		for _, scheme := range []string{"light", "dark"} {
			b.scheme(scheme)
			b.open(page)
			js[bool](b, `(document.querySelectorAll("details").forEach(d => d.open = true), true)`)
			if c := js[least](b, contrast); c.Ratio < 4.5 {
				b.t.Errorf("%s, %s: a contrast of %.2f at %s", page, scheme, c.Ratio, c.Where)
			}
		}
		b.scheme("light")
		tree, err := chromedp.Call(b.ctx, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{})
		if err != nil {
			b.t.Fatal(err)
		}
		for _, n := range tree.Nodes {
			if n.Ignored || n.Role == nil {
				continue
			}
			switch role := strings.Trim(string(n.Role.Value), `"`); role {
			case "button", "link", "textbox", "searchbox", "combobox", "checkbox", "DisclosureTriangle", "image", "table", "navigation":
				if name := n.Name; role != "table" && (name == nil || strings.Trim(string(name.Value), `" `) == "") {
					b.t.Errorf("%s: a %s without a name", page, role)
				}
			}
		}
		b.do(chromedp.EmulateViewport(390, 844))
		b.open(page)
		// The longest form of times, which those of another day have.
		js[bool](b, `(document.querySelectorAll("time[title]").forEach(e => e.textContent = e.title.replace(/ (UTC|GMT\S*)$/, "")), true)`)
		if over := js[float64](b, `document.scrollingElement.scrollWidth - innerWidth`); over > 0 {
			b.t.Errorf("%s is %v px wider than a screen of 390: %s", page, over,
				js[string](b, `([...document.querySelectorAll("main *, header *, footer *")].find(e => e.getBoundingClientRect().right > innerWidth + 1 && !e.closest(".scroll, pre")) || document.body).outerHTML.slice(0, 160)`))
		}
		b.do(chromedp.EmulateViewport(1280, 900))
	}
}

// Everything can be read and done without JavaScript.
func plain(b *tab) {
	b.s.keep("shop:paid:notice:plain", "/ok", time.Hour, "scheduled")
	set := func(off bool) {
		if _, err := chromedp.Call(b.ctx, emulation.SetScriptExecutionDisabled,
			emulation.SetScriptExecutionDisabledParams{Value: off}); err != nil {
			b.t.Fatal(err)
		}
	}
	set(true)
	defer set(false)
	b.open("/ui/")
	if b.shows("#live-hold") {
		b.t.Error("a button is shown that does nothing without a script")
	}
	if b.shows("#zone-switch") {
		b.t.Error("the switch to local times is shown, which needs a script")
	}
	b.sees("all times are UTC")
	b.sees("payments")
	b.sees("Due in the next hour")
	b.open("/ui/notices?q=part%3Dplain")
	b.click(`a[href="/ui/notices/shop:paid:notice:plain"]`)
	b.sees("Due in")
	b.click(`#live-again`)
	b.sees("Due in")
	b.click(`details:has(form[action$="/cancel"]) summary`)
	b.click(`form[action$="/cancel"] button`)
	b.sees("The notice is cancelled.")
	b.s.await("shop:paid:notice:plain", "cancelled")
	b.open("/ui/notices?q=shop:paid:")
	b.click(`form[role=search] button`)
	b.sees("In Redis")
	b.click(`.words a[href="/ui/notices"]`)
	testkit.Until(b.t, "the word is removed", func() bool { return js[string](b, "location.search") == "" })
	b.sees("shop:paid:notice:plain")
	b.open("/ui/receivers")
	b.click(`[id="resume-hold-host_next.example_"] summary`)
	b.click(`[id="resume-hold-host_next.example_"] button`)
	b.sees("The receiver is resumed.")
	b.click(`#hosts a`)
	b.sees("Attempts since the hour of its first failure")
	b.click(`#pause-hold summary`)
	b.types(`#pause-hold input[name=until]`, "+2h")
	b.click(`#pause-hold button`)
	b.sees("The receiver is paused.")
	b.sees("paused until")
	b.click(`#actions details:has(form[action="/ui/receivers/resume"]) summary`)
	b.click(`#actions form[action="/ui/receivers/resume"] button`)
	b.sees("The receiver is resumed.")
	b.open("/ui/replays")
	b.click(`a[href="/ui/replays/new"]`)
	b.types(`input[name=since]`, "-1h")
	b.click(`form[action="/ui/replays/new"] button`)
	b.sees("notices to 1 host")
}
