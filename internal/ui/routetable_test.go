package ui_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"notifier/internal/engine/enginetest"
	"notifier/internal/notice"
	"notifier/internal/receivers"
	"notifier/internal/route"
	"notifier/internal/ui"
)

// withRoutes is a site with n routes, r00 to r29.
func withRoutes(t *testing.T, n int) *site {
	t.Helper()
	s := &site{t: t}
	var list []*route.Route
	for i := range n {
		r := *routes(t).Name("orders")
		r.Name, r.Prefix, r.Concurrency = fmt.Sprintf("r%02d", i), fmt.Sprintf("app1:m%02d", i), 100-i
		list = append(list, &r)
	}
	var err error
	if s.table, err = route.NewTable(list); err != nil {
		t.Fatal(err)
	}
	s.engine = enginetest.New(t, s.table)
	return s
}

// order returns the routes of a page in the order of their rows.
func (s *site) order(path string) (names []string) {
	s.t.Helper()
	for _, m := range regexp.MustCompile(`<th scope="row"><a [^>]*>(r\d\d)</a>`).FindAllStringSubmatch(s.get(path).is(200).body, -1) {
		names = append(names, m[1])
	}
	return names
}

// More than six routes are a table. Those without problems are folded into one line.
func TestManyRoutesAreATable(t *testing.T) {
	s := withRoutes(t, 30)
	s.health = &physician{routes: []receivers.RouteHealth{{Prefix: "app1:m09", Receivers: []receivers.Health{
		{Name: "shop.example:443", Since: time.Now().Add(-time.Minute), LastAttempt: time.Now(), Failures: 1, Reason: "timeout"}}}}}
	s = s.as(ui.Visitor{})
	for i, n := range map[int]int{3: 2, 17: 5} {
		for k := range n {
			s.dead(fmt.Sprintf("app1:m%02d:t:%d", i, k), "https://shop.example/", notice.ReasonTimeout, "")
		}
	}
	s.keep("app1:m05:t:1", notice.Content{URL: "https://shop.example/"}, time.Hour)
	page := s.get("/ui/").is(200).says("27 routes without problems", "r09 receivers failing 0")
	if strings.Contains(page.body, `class="cards"`) || strings.Contains(page.body, "<details class=\"fold\" open") {
		t.Error("there are cards, or the healthy routes are not folded")
	}
	for query, want := range map[string][]string{"": {"r17", "r03", "r09"}, "?sort=dead": {"r17", "r03", "r09"},
		"?sort=-dead": {"r09", "r03", "r17"},
		"?sort=route": {"r03", "r09", "r17"}, "?sort=-route": {"r17", "r09", "r03"}, "?sort=none": {"r03", "r09", "r17"}} {
		if got := s.order("/ui/" + query); len(got) != 30 || !slices.Equal(got[:3], want) {
			t.Errorf("%s: %q, want %q first", query, got, want)
		}
	}
	if got := s.order("/ui/?sort=pending"); got[3] != "r05" {
		t.Errorf("the route with a pending notice is not first of those folded: %q", got)
	}
	if page := s.get("/ui/?sort=dead").body; !strings.Contains(page, `data-live="/ui/live/now?sort=dead"`) ||
		!strings.Contains(page, `aria-sort="descending"><a href="/ui/?sort=-dead#routes">`) {
		t.Error("the stream or the head of the column has another order")
	}
	for _, column := range []string{"due", "overdue", "deferred", "flight", "p50", "p99", "rate"} {
		if got := s.order("/ui/?sort=" + column); len(got) != 30 {
			t.Errorf("%s: %q", column, got)
		}
	}
	withRoutes(t, 6).as(ui.Visitor{}).get("/ui/").is(200).saysNot("without problems")
}

// The page of routes is a table too, and shows the section of the route that was chosen.
func TestManyRoutesAreATableOfTheConfiguration(t *testing.T) {
	s := withRoutes(t, 30).as(ui.Visitor{})
	if got := s.order("/ui/routes?sort=concurrency"); len(got) != 30 || got[0] != "r00" || got[29] != "r29" {
		t.Errorf("%q", got)
	}
	if got := s.order("/ui/routes?sort=-concurrency"); got[0] != "r29" {
		t.Errorf("%q", got)
	}
	for _, column := range []string{"prefix", "target", "ladder", "timeout", "host", "limit", "flight", "rate"} {
		if got := s.order("/ui/routes?sort=" + column); len(got) != 30 {
			t.Errorf("%s: %q", column, got)
		}
	}
	s.get("/ui/routes").saysNot("acknowledgement", "Pause r07")
	page := s.get("/ui/routes?route=r07&sort=-limit").says("acknowledgement", "Pause r07").saysNot("Pause r08")
	if !strings.Contains(page.body, `href="/ui/routes?route=r08&amp;sort=-limit#r-r08"`) {
		t.Error("another route is shown in another order")
	}
	withRoutes(t, 6).as(ui.Visitor{}).get("/ui/routes").says("Pause r00", "Pause r05")
}
