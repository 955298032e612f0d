package ui_test

import (
	"encoding/csv"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"notifier/internal/mask"
	"notifier/internal/notice"
	"notifier/internal/search"
	"notifier/internal/ui"
)

func TestFaultsOfSearchesHaveTexts(t *testing.T) {
	for _, want := range search.Wants {
		if ui.FaultText(want) == "" {
			t.Errorf("the fault %q has no text", want)
		}
	}
}

// links returns the addresses of a page that begin with a text.
func (a answer) links(begin string) (list []string) {
	a.each(func(n *html.Node) {
		if to := attr(n, "href"); n.Data == "a" && strings.HasPrefix(to, begin) {
			list = append(list, to)
		}
	})
	return list
}

// Each word can be removed, and the address with the times in full is the same search at another time.
func TestSearchShowsRemovableWords(t *testing.T) {
	s := newSite(t)
	s.keep("app1:orders:paid:4711", notice.Content{URL: "https://shop.example/x"}, time.Hour)
	page := s.get("/ui/notices?q="+url.QueryEscape("shop.example 4711 1d")).is(200).says("Host shop.example", "Order number 4711", "Time 1d",
		"Link with these times", "No notice matches") // it is due in the future
	links := page.links("/ui/notices?q=")
	for _, rest := range []string{"4711 1d", "shop.example 1d", "shop.example 4711"} {
		if to := "/ui/notices?q=" + url.QueryEscape(rest); !slices.Contains(links, to) {
			t.Errorf("no link to %s in %q", to, links)
		}
	}
	s.get("/ui/notices?q="+url.QueryEscape("shop.example 4711")).says("app1:orders:paid:4711", "1 notice")
	i := slices.IndexFunc(links, func(to string) bool { return strings.Contains(to, "since%3D") && strings.Contains(to, "until%3D") })
	if i < 0 {
		t.Fatalf("no link with the times: %q", links)
	}
	s.get(links[i]).is(200).says("From since=", "Until until=", "Host shop.example")
	s.get("/ui/").says("Search").each(func(n *html.Node) {
		if n.Data == "form" && attr(n, "role") == "search" && attr(n, "action") != "/ui/notices" {
			t.Errorf("the box of the first page leads to %s", attr(n, "action"))
		}
	})
}

// The box of words is read in the visitor's zone.
func TestSearchReadsTimesInTheVisitorsZone(t *testing.T) {
	s := newSite(t)
	r := httptest.NewRequest(http.MethodGet, "/ui/notices?q="+url.QueryEscape("2026-11-22 10-11"), nil)
	r.AddCookie(&http.Cookie{Name: "notifier_zone", Value: "Asia%2FShanghai"})
	s.do(r).is(200).says("2026-11-22 02:00:00 UTC", "2026-11-22 03:00:00 UTC")
}

// The file has the matches within the scope, and no route of a visitor with a link has one.
func TestSearchFileIsWithinTheScope(t *testing.T) {
	s, a := newSite(t), &archive{}
	s.history = a
	s = s.as(ui.Visitor{})
	s.dead("app1:orders:paid:1", "https://shop.example/x", notice.ReasonTimeout, "=1+1")
	s.keep("app2:a:b:1", notice.Content{URL: "https://other.example/x"}, time.Hour)
	a.put("app1:orders:paid:2", notice.EndDelivered, nil)
	a.put("app2:a:b:2", notice.EndDelivered, nil)
	keysOf := func(v ui.Visitor, q string) (list []string) {
		t.Helper()
		file := s.as(v).get("/ui/notices.csv?q=" + url.QueryEscape(q)).is(200)
		if to := file.Header.Get("Content-Disposition"); !strings.HasSuffix(to, `.csv"`) {
			t.Errorf("%q", to)
		}
		rows, err := csv.NewReader(strings.NewReader(file.body)).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range rows[1:] {
			list = append(list, row[1])
		}
		slices.Sort(list)
		return list
	}
	for _, c := range []struct {
		v    ui.Visitor
		q    string
		want []string
	}{
		{ui.Visitor{}, "", []string{"app1:orders:paid:1", "app1:orders:paid:2", "app2:a:b:1", "app2:a:b:2"}},
		{ui.Visitor{Prefix: "app1"}, "", []string{"app1:orders:paid:1", "app1:orders:paid:2"}},
		{ui.Visitor{Prefix: "app2"}, "app1:", nil},
		{ui.Visitor{}, "failed 1d", []string{"app1:orders:paid:1"}},
	} {
		if got := keysOf(c.v, c.q); !slices.Equal(got, c.want) {
			t.Errorf("%+v %q: %q, want %q", c.v, c.q, got, c.want)
		}
	}
	s.get("/ui/notices.csv?q=part%3D1").is(422).says("need a time")
	s.get("/ui/notices.csv?q=state%3Dgone").is(422).says("no such state")
	linked := s.as(ui.Visitor{Prefix: "app1", Host: "shop.example"})
	linked.get("/ui/notices.csv").is(403)
	linked.get("/ui/notices?q=1&list=1").is(200).says("app1:orders:paid:1").saysNot("Download CSV")
}

// A notice that Redis and the history have is listed once.
func TestNoticeOfBothStoresIsListedOnce(t *testing.T) {
	s, a := newSite(t), &archive{}
	s.history = a
	s = s.as(ui.Visitor{})
	const key = "app1:orders:paid:1"
	s.dead(key, "https://shop.example/x", notice.ReasonTimeout, "")
	f, err := s.engine.Find(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	a.put(key, notice.EndDead, nil)
	a.rows[0].Notice, a.rows[0].Number = f.Notice, f.Endings+1
	page := s.get("/ui/notices?q=1&list=1").is(200).says("in the history too", "1 of them is above", "No entry matches")
	if n := len(page.links("/ui/notices/" + key)); n != 1 {
		t.Errorf("%d links to the notice", n)
	}
	s.get("/ui/history").says(key).saysNot("No entry matches")
}

// Where content is masked, text is not searched: the matches would tell it.
func TestMaskedTextIsNotSearched(t *testing.T) {
	s, a := newSite(t), &archive{}
	s.history = a
	a.put("app1:orders:paid:1", notice.EndDelivered, nil)
	rules, err := mask.New(false, "$.a")
	if err != nil {
		t.Fatal(err)
	}
	s.mask = rules
	s = s.as(ui.Visitor{})
	for _, path := range []string{"/ui/notices", "/ui/history", "/ui/notices.csv"} {
		s.get(path + "?q=secretsum+7d").says("so text is not searched").saysNot("app1:orders:paid:1")
	}
}
