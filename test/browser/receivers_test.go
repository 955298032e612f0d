//go:build !quick

package browser

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"notifier/internal/testkit"
)

// checked is the problem on the first page once the checks of doctor were made. Problems below it move, so tests wait for it before they
// click.
const checked = "Redis is misconfigured"

// The first page shows a failing receiver from its first failed attempt on, although others answer and no
// notice has died.
func TestFirstPageNamesFailingReceivers(t *testing.T) {
	s := start(t)
	b := browse(t, s)
	b.open("/ui/")
	b.sees(checked)
	for i := range 3 {
		s.keep(fmt.Sprintf("shop:paid:notice:fails%d", i), "/down", 0, "scheduled")
		s.keep(fmt.Sprintf("shop:refund:notice:answers%d", i), "/ok", 0, "delivered")
	}
	host := strings.TrimPrefix(s.shop.URL, "http://")
	b.sees(host + ": failing since ") // the page is live
	b.sees("HTTP 500, 3 in a row")
	b.sees("3 waiting · next attempt")
	b.sees("route payments")
	if text := b.text(); strings.Contains(text, "No problems found") || strings.Contains(text, "route refunds") {
		t.Errorf("the page calls a healthy receiver failing, or the other way round: %s", text)
	}

	b.open("/ui/receivers")
	b.sees("failing since")
	rows := js[string](b, `[...document.querySelectorAll("#hosts tbody tr")].map(r => r.className + " " + r.innerText.replaceAll(/\s+/g, " ")).join("\n")`)
	if !strings.Contains(rows, "ok "+host+" refunds answers") || !strings.Contains(rows, "warn "+host+" payments failing") {
		t.Errorf("a host that fails is as one that answers: %s", rows)
	}

	b.open("/ui/")
	b.click(`#matters .matter a[href*="route=payments"]`)
	b.sees("shop:paid:notice:fails1")
}

// The metric counts receivers that fail for 15 minutes: none yet.
func TestMetricCountsLongFailingReceivers(t *testing.T) {
	s := start(t)
	s.keep("shop:paid:notice:fails", "/down", 0, "scheduled")
	testkit.Until(t, "the metric is there", func() bool {
		res, err := http.Get(s.address + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = res.Body.Close() }()
		page, err := io.ReadAll(res.Body)
		return err == nil && strings.Contains(string(page), "\nnotifier_receivers_failing{route=\"payments\"} 0\n") // 15 minutes are not over
	})
}
