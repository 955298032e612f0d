//go:build !quick

package browser

import (
	"fmt"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"notifier/internal/testkit"
)

// A window is replayed slowly after a preview. The replay is stopped and resumed, and its page shows the
// progress.
func TestReplayFromTheHistory(t *testing.T) {
	s := start(t, "NOTIFIER_HISTORY_URL", "sqlite://"+filepath.Join(t.TempDir(), "history.db"))
	for i := range 4 {
		s.keep(fmt.Sprintf("shop:paid:notice:%d", i), "/ok", 0, "delivered")
	}
	s.keep("shop:refund:notice:1", "/gone", 0, "dead")
	testkit.Until(t, "the history has all", func() bool {
		var ended struct{ Items []struct{ Key string } }
		s.call(http.MethodGet, "/v1/history", "", &ended)
		return len(ended.Items) == 5
	})

	b := browse(t, s)
	b.open("/ui/")
	c := &clicker{tab: b}
	c.on(`nav a[href="/ui/history"]`)
	c.sees("shop:refund:notice:1")
	c.on(`a[href^="/ui/replays/new"]`)
	c.types(`input[name=since]`, "-1h")
	js[string](c.tab, `document.querySelector("input[name=rate]").value = "6/m"`)
	c.on(`form[action="/ui/replays/new"] button`)
	c.sees("5 notices to 1 host")
	c.sees("127.0.0.1\t5")
	c.on(`form[action="/ui/replays"] button`)
	c.few()
	b.sees("The replay is started.")
	b.sees("1 of 5 notices sent")
	b.sees("Live")
	b.click(`form[action$="/stop"] button`)
	b.sees("The replay is stopped.")
	b.sees("stopped")
	b.click(`form[action$="/resume"] button`)
	b.sees("The replay is resumed.")
	b.open("/ui/replays")
	b.sees("running")

	b.open("/ui/replays/new")
	b.types(`input[name=prefix]`, "shop:refund")
	b.types(`input[name=since]`, "-1h"+kb.Enter)
	b.sees("1 notice to 1 host")
	b.click(`form[action="/ui/replays"] button`)
	b.sees("1 of 1 notice sent")
	b.sees("done · 100 %") // by itself
	b.open("/ui/history?q=shop:refund:notice:1")
	testkit.Until(t, "it ended once more", func() bool {
		b.open("/ui/history?q=shop:refund:notice:1")
		return js[int](b, `document.querySelectorAll("#history tbody th").length`) == 2
	})
	b.open("/ui/audit")
	for _, did := range []string{"replay-stop", "replay-resume", "5 notices that ended since"} {
		b.sees(did)
	}
}
