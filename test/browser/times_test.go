//go:build !quick

package browser

import (
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"notifier/internal/testkit"
)

// Lists show the time of day and how long ago it was, in the reader's zone or in UTC. Typed times are of
// the same zone, and the address has them in full.
func TestTimesInUTCAndLocal(t *testing.T) {
	s := start(t)
	b := browse(t, s)
	// UTC+5:30
	if _, err := chromedp.Call(b.ctx, emulation.SetTimezoneOverride,
		emulation.SetTimezoneOverrideParams{TimezoneID: "Asia/Kolkata"}); err != nil {
		t.Fatal(err)
	}
	due := time.Now().UTC().Add(3 * time.Minute).Truncate(time.Second)
	var kept struct{}
	s.call("POST", "/v1/notices", `{"key":"shop:paid:notice:1","url":"`+s.shop.URL+`/ok","due":"`+due.Format(time.RFC3339)+`"}`, &kept)
	kolkata := time.FixedZone("", 5*60*60+30*60)

	b.open("/ui/notices?q=shop:paid:")
	b.sees(due.In(kolkata).Format(time.TimeOnly) + " · in 2m")
	b.sees("times are those of Asia/") // the browser may call it Calcutta
	if title := js[string](b, `document.querySelector("#in-redis time, .list time").title`); title != due.Format(time.DateTime)+" UTC" {
		t.Errorf("the title of a time is %q", title)
	}

	from := due.Add(-time.Hour).In(kolkata)
	b.types(`input[name=q]`, "since="+from.Format("2006-01-02T15:04")+" "+kb.Enter)
	b.sees("From " + from.Truncate(time.Minute).Format(time.DateTime) + " GMT+5:30")
	b.click("#times a")
	testkit.Until(t, "the address has the time in full", func() bool {
		q, err := url.ParseQuery(strings.TrimPrefix(js[string](b, "location.search"), "?"))
		return err == nil && strings.Contains(q.Get("q"), "since="+from.UTC().Truncate(time.Minute).Format(time.RFC3339))
	})
	b.sees("shop:paid:notice:1")
	b.open("/ui/")
	next := regexp.MustCompile("next due (" + due.In(kolkata).Format(time.DateOnly) + " )?" + due.In(kolkata).Format(time.TimeOnly))
	testkit.Until(t, "live blocks too have local times, with the date of another day", func() bool { return next.MatchString(b.text()) })
	b.open("/ui/notices/shop:paid:notice:1")
	b.sees(due.In(kolkata).Format(time.DateTime) + " GMT+5:30")

	b.click("#zone-switch")
	b.sees(due.Format(time.DateTime) + " UTC")
	b.sees("all times are UTC")
	b.open("/ui/notices?since=25:00")
	b.sees("is not a time")
}
