//go:build !quick

package browser

import (
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"

	"notifier/internal/keys"
	"notifier/internal/testkit"
)

// mostClicks is the maximum number of clicks from the first page to an answer. Typing and Enter count as
// one.
const mostClicks = 4

// clicker counts clicks.
type clicker struct {
	*tab
	n int
}

func (c *clicker) on(selector string) {
	c.t.Helper()
	c.n++
	c.click(selector)
}

// submits enters a text into a form's field and submits the form.
func (c *clicker) submits(selector, text string) {
	c.t.Helper()
	c.n++
	js[bool](c.tab, "window.clicked = true")
	c.types(selector, text+kb.Enter)
	c.next()
}

func (c *clicker) few() {
	c.t.Helper()
	if c.n > mostClicks {
		c.t.Errorf("%d clicks, want at most %d", c.n, mostClicks)
	}
}

// forget removes a settled notice from Redis, as the end of its retention does.
func (s *service) forget(key string) {
	s.t.Helper()
	space := keys.Space{Namespace: "notifier", Shards: 1}
	at := keys.Partition{Prefix: strings.Join(strings.SplitN(key, ":", 3)[:2], ":")}
	client := s.redis.Client()
	if n, err := client.HDel(s.t.Context(), space.Records(at), key).Result(); err != nil || n != 1 {
		s.t.Fatalf("%d records are removed: %v", n, err)
	}
	if err := client.ZRem(s.t.Context(), space.Settled(at), key).Err(); err != nil {
		s.t.Fatal(err)
	}
}

// attemptedAt returns when the first attempt of a notice started, as the pages show it.
func (s *service) attemptedAt(key string) string {
	s.t.Helper()
	var n struct{ Attempts []struct{ At time.Time } }
	s.call(http.MethodGet, "/v1/notices/"+key, "", &n)
	return n.Attempts[0].At.UTC().Format(time.DateTime) + " UTC"
}

// Was this receiver notified of that order, when, and what did it answer? The answer is found in Redis, in
// the history, and by webhook-id.
func TestSupportFindsWhatAReceiverAnswered(t *testing.T) {
	s := start(t, "NOTIFIER_HISTORY_URL", "sqlite://"+filepath.Join(t.TempDir(), "history.db"))
	s.keep("shop:paid:notice:4711", "/ok", 0, "delivered")
	s.keep("shop:paid:notice:4712", "/ok", 0, "delivered")
	var ended struct {
		Items []struct{ Key, ID string }
	}
	testkit.Until(t, "the history has both", func() bool {
		s.call(http.MethodGet, "/v1/history?"+url.Values{"prefix": {"shop:paid"}}.Encode(), "", &ended)
		return len(ended.Items) == 2
	})
	const first, second = "shop:paid:notice:4711", "shop:paid:notice:4712"
	at := map[string]string{first: s.attemptedAt(first), second: s.attemptedAt(second)}
	s.forget(second)
	ids := map[string]string{}
	for _, x := range ended.Items {
		ids[x.Key] = x.ID
	}

	b := browse(t, s)
	answered := func(c *clicker, key string, extra ...string) {
		t.Helper()
		for _, text := range append(extra, key, at[key], "Delivered", "HTTP 200 · delivered", `{"ok":true}`, "127.0.0.1") {
			c.sees(text)
		}
		c.few()
	}
	begin := func() *clicker {
		b.open("/ui/")
		c := &clicker{tab: b}
		c.on(`nav a[href="/ui/notices"]`)
		return c
	}

	c := begin()
	c.submits("input[name=q]", "4711")
	answered(c, first)
	c.on(`#found a`)
	c.sees("In Redis")
	c.on(`#in-redis a[href$=":4711"]`)
	answered(c, first)

	// From the first page: the order number, its answer, and the resend, of a notice in Redis and of one in the history.
	for _, order := range []string{"4711", "4712"} {
		b.open("/ui/")
		c = &clicker{tab: b}
		c.submits("input[name=q]", order)
		c.sees(`{"ok":true}`)
		answers := c.n
		c.on(`#do-resend summary`)
		c.on(`#do-resend button`)
		c.sees("The notice is sent once more")
		if answers > 1 || c.n > 3 {
			t.Errorf("%s: %d clicks to the answer, %d to the resend", order, answers, c.n)
		}
		s.await("shop:paid:notice:"+order, "delivered")
	}

	b.open("/ui/") // first: the live updates of a page fail if its notice is gone when they begin
	s.forget(second)
	c = &clicker{tab: b}
	c.submits("input[name=q]", "delivered 1d")
	c.sees("Download CSV")
	if to := js[string](b, `document.querySelector("a[download]").href`); !strings.Contains(to, "since%3D") || c.n > 2 {
		t.Errorf("after %d clicks the file is %s", c.n, to)
	}

	c = begin()
	c.submits("input[name=q]", "shop:paid:notice:4712")
	answered(c, second, "It is no longer in Redis")

	c = begin()
	c.submits("input[name=q]", "shop:paid:notice:47")
	c.sees("1 of them is above")
	c.on(`#history a[href*=":4712"]`)
	answered(c, second, "From the history")

	for _, key := range []string{first, second} {
		c = begin()
		c.submits("input[name=q]", ids[key])
		c.on(`section a[href*="` + key + `"]`)
		answered(c, key, ids[key])
	}
	b.open("/ui/notices?" + url.Values{"route": {"payments"}, "id": {ids["shop:paid:notice:4711"]}}.Encode())
	b.sees("shop:paid:notice:4711")
	if text := b.text(); strings.Contains(text, "4712") {
		t.Errorf("another notice is found by the webhook-id: %s", text)
	}
}

// Which receiver fails, since when, what does it answer, and how much waits for it?
func TestSupportFindsFailingReceivers(t *testing.T) {
	s := start(t)
	for i := range 3 {
		s.keep(fmt.Sprintf("shop:paid:notice:%d", i), "/down", 0, "scheduled")
	}
	s.keep("shop:refund:notice:1", "/down", 0, "dead")
	b := browse(t, s)
	b.open("/ui/")
	host := strings.TrimPrefix(s.shop.URL, "http://")
	b.sees("3 waiting")
	b.sees(checked)
	c := &clicker{tab: b}
	c.on(`#matters a[href^="/ui/receivers/"]`)
	c.sees("Route payments")
	c.few()
	for _, text := range []string{host, "failing since", "HTTP 500, 3 in a row", "3 · next attempt", "3 attempts, 3 failed (100 %)",
		"Last responses", "Route refunds"} {
		c.sees(text)
	}
	if dead := js[string](b, `[...document.querySelectorAll(".facts div")].filter(d => d.querySelector("dt").innerText === "dead").map(d => d.querySelector("dd").innerText).join()`); dead != "0,1" && dead != "1,0" {
		t.Errorf("dead letters %s", dead)
	}
	c.on(`.facts a[href*="state=scheduled"][href*="route=payments"]`)
	c.sees("shop:paid:notice:2")
	b.open("/ui/destinations")
	b.sees("Receivers that failed within 48 hours")
}

// A window of a receiver is redelivered slowly.
func TestRedeliverWindowSlowly(t *testing.T) {
	s := start(t)
	for i := range 3 {
		s.keep(fmt.Sprintf("shop:refund:notice:%d", i), "/down", 0, "dead")
	}
	b := browse(t, s)
	b.open("/ui/")
	b.sees(checked)
	c := &clicker{tab: b}
	c.on(`#matters a[href^="/ui/receivers/"]`)
	c.on(`a[href*="/redeliver"]`)
	c.sees("Died from")
	js[bool](b, `(document.querySelector("input[name=rate]").select(), true)`)
	c.submits("input[name=rate]", "6/m") // and Enter, which opens the preview
	c.sees("3 dead letters about 30s at 6/m")
	c.on(`form[method=post][action$="/redeliver"] button`)
	c.sees("3 notices scheduled again.")
	c.few()
	waiting := 0
	for i := range 3 {
		if s.state(fmt.Sprintf("shop:refund:notice:%d", i)) == "scheduled" {
			waiting++
		}
	}
	if waiting < 2 {
		t.Errorf("%d of three wait for their turn, want two", waiting)
	}
	b.open("/ui/audit")
	b.sees("at 6/m")
}

// A search for a webhook-id in Redis reads 10,000 notices at most, and can be continued.
func TestSearchForWebhookIDContinues(t *testing.T) {
	s := start(t)
	const list = 10_500
	for from := 0; from < list; from += 500 {
		var batch strings.Builder
		for i := range 500 {
			fmt.Fprintf(&batch, `{"key":"shop:mail:welcome:%05d","delay":"1h","body":{}}`+"\n", from+i)
		}
		var answer struct{ Items []struct{ Status int } }
		s.call(http.MethodPost, "/v1/notices/batch", batch.String(), &answer)
	}
	b := browse(t, s)
	b.open("/ui/notices?route=mail&id=msg_0123456789abcdef0123456789")
	b.sees("The search is not finished.")
	for pages := 0; strings.Contains(b.text(), "Continue search"); pages++ {
		if pages > list {
			t.Fatal("the search does not end")
		}
		before := js[string](b, "location.href")
		b.click(`#in-redis .more a.main`)
		testkit.Until(t, "the next part", func() bool { return js[string](b, "location.href") != before })
	}
	b.sees("No notice matches.")
}
