//go:build !quick

package browser

import (
	"flag"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"notifier/internal/testkit"
)

var screenshots = flag.String("screenshots", "", "the directory that the screenshots of docs/dashboard.md are written to")

// Without the flag the pages are only drawn, so that a fault is found before new pictures are made.
func TestScreenshots(t *testing.T) {
	dir := *screenshots
	if dir == "" {
		dir = t.TempDir()
	}
	s := start(t, "NOTIFIER_HISTORY_URL", "sqlite://"+filepath.Join(t.TempDir(), "history.db"))
	for i := range 5 {
		s.keep(fmt.Sprintf("shop:refund:notice:20261122%03d", i), "/down", 0, "dead")
	}
	s.keep("shop:refund:notice:20261122900", "/gone", 0, "dead")
	for i := range 40 {
		s.keep(fmt.Sprintf("shop:paid:notice:20261122%03d", i), "/ok", time.Duration(i*i)*2*time.Second+time.Minute, "scheduled")
	}
	for i := range 12 {
		s.keep(fmt.Sprintf("shop:paid:notice:20261121%03d", i), "/ok", 0, "delivered")
		s.keep(fmt.Sprintf("shop:mail:welcome:%03d", i), "", time.Duration(i)*4*time.Minute+time.Minute, "scheduled")
	}
	s.keep("shop:paid:notice:20261122777", "/down", 0, "scheduled")
	s.holdReceivers()
	b := browse(t, s)
	testkit.Until(t, "its first attempt has failed", func() bool {
		var n struct{ Attempts []struct{ Status int } }
		s.call("GET", "/v1/notices/shop:paid:notice:20261122777", "", &n)
		return len(n.Attempts) == 1
	})
	b.open("/ui/doctor") // so that doctor has looked
	b.open("/ui/routes")
	b.click(`details:has(form[action="/ui/routes/mail/pause"]) summary`)
	b.click(`form[action="/ui/routes/mail/pause"] button`)
	b.sees("The route is paused.")
	group := "/ui/dead/group?" + url.Values{"route": {"refunds"}, "reason": {"status_5xx"}, "host": {"127.0.0.1"}}.Encode()
	for _, shot := range []struct {
		name, path, scheme string
		width, height      int64
	}{
		{"now", "/ui/", "light", 1280, 0}, {"now-dark", "/ui/", "dark", 1280, 900}, {"now-narrow", "/ui/", "light", 390, 844},
		{"notices", "/ui/notices?q=20261122&state=scheduled", "light", 1280, 800},
		{"notice", "/ui/notices/shop:paid:notice:20261122777", "light", 1280, 0}, {"dead", "/ui/dead", "light", 1280, 620},
		{"group", group, "light", 1280, 0}, {"receivers", "/ui/receivers", "light", 1280, 1000},
		{"replay", "/ui/replays/new?preview=1&since=-1h&rate=20/s", "light", 1280, 800},
		{"receiver", "/ui/receivers/" + strings.TrimPrefix(s.shop.URL, "http://"), "light", 1280, 0},
		{"routes", "/ui/routes", "light", 1280, 800}, {"doctor", "/ui/doctor", "light", 1280, 700}, {"audit", "/ui/audit", "light", 1280, 500},
		{"now-zh", "/ui/", "light", 1280, 900}, {"notice-zh", "/ui/notices/shop:paid:notice:20261122777", "light", 1280, 0},
		{"now-zh-narrow", "/ui/", "light", 390, 844},
	} {
		b.scheme(shot.scheme)
		b.do(chromedp.EmulateViewport(shot.width, max(shot.height, 800)))
		b.open(shot.path)
		live, paused := "Live", "mail is paused"
		if strings.Contains(shot.name, "-zh") {
			b.language("zh-CN")
			live, paused = "实时更新", "路由 mail 已暂停"
		}
		if shot.path == "/ui/" {
			b.sees(live)
			b.sees(paused)
		}
		picture := chromedp.CaptureScreenshot()
		if shot.height == 0 {
			picture = chromedp.FullScreenshot(100)
		}
		png, err := chromedp.Run(b.ctx, picture)
		if err != nil {
			t.Fatal(err)
		}
		if len(png) < 10<<10 {
			t.Errorf("%s: a picture of %d bytes", shot.name, len(png))
		}
		if err := os.WriteFile(filepath.Join(dir, shot.name+".png"), png, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
