package ui_test

import (
	"regexp"
	"testing"
	"time"

	"notifier/internal/notice"
)

// Regression test: counts are up to 30 s old, and "next due 28s ago" stood beside "overdue 0". Distances are those at the
// time of the sample, which the page shows.
func TestFiguresAreRelativeToTheirSample(t *testing.T) {
	s := newSite(t)
	s.keep("app1:orders:paid:1", notice.Content{URL: "https://shop.example/"}, 30*time.Minute)
	read := func() (due, counted, listed string) {
		t.Helper()
		page := s.get("/ui/").is(200).body
		part := func(text string) string {
			t.Helper()
			found := regexp.MustCompile(text).FindStringSubmatch(page)
			if found == nil {
				t.Fatalf("no %s in %s", text, page)
			}
			return found[1]
		}
		const at = `(?s)-at" class="soft">.*?datetime="([^"]*)"`
		return part(`next due .*?· ([^<]*)<`), part("routes" + at), part("service" + at)
	}
	for until := time.Now().Add(30 * time.Second); time.Now().Before(until); {
		due, counted, listed := read()
		time.Sleep(1100 * time.Millisecond) // sleep: heartbeats are read again after this time, and counts seldom
		again, same, other := read()
		if same != counted || other == listed {
			continue
		}
		if again != due {
			t.Errorf("of the same sample: %q, then %q", due, again)
		}
		return
	}
	t.Error("the counts were read with each sample")
}
