package engine

import (
	"bytes"
	"encoding/csv"
	"errors"
	"testing"
	"time"

	"notifier/internal/auth"
	"notifier/internal/history"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/search"
	"notifier/internal/store"
	"notifier/internal/testkit"
)

// A notice that Redis and the history have is in the answer once. Nothing outside the scope is in it.
func TestSearchAnswersFromBothStores(t *testing.T) {
	t.Parallel()
	onDatabases(t, func(t *testing.T, d *history.DB) {
		s := newSink(100)
		s.answer = func(n *notice.Notice) notice.Result {
			if n.URL == "https://dead.example/x" {
				return notice.DeadResult(notice.ReasonGone, "=card declined")
			}
			return notice.DeliveredResult(200)
		}
		a, b := testRoute("a", "app1:orders:paid"), testRoute("b", "app2:orders:paid")
		a.Target.Kind, b.Target.Kind = route.KindNotice, route.KindNotice
		w := start(t, testkit.SharedRedis(t), s, func(o *Options) { o.History = History{DB: d, Backlog: 1000} }, a, b)
		put := func(key, address string, delay time.Duration) {
			t.Helper()
			if _, err := w.Schedule(t.Context(), store.Request{Key: key, Delay: delay,
				Content: notice.Content{URL: address, Body: []byte(`{"n":1}`)}}); err != nil {
				t.Fatal(err)
			}
		}
		put("app1:orders:paid:4711", "https://dead.example/x", 0)
		put("app1:orders:paid:4712", "https://live.example/x", 0)
		put("app2:orders:paid:4711", "https://live.example/x", 0)
		put("app1:orders:paid:5000", "https://live.example/x", time.Hour)
		s.await(t, 3)
		rowsOf(t, d, history.Query{}, 3)
		rows := rowsOf(t, d, history.Query{Key: "app1:orders:paid:4712"}, 1)
		old := rows[0]
		other := *old.Notice
		other.Key, other.Made, old.Notice = "app1:orders:paid:4713", notice.MadeAt(time.Now().Add(-time.Minute)), &other
		if _, err := d.Write(t.Context(), []history.Row{old}); err != nil {
			t.Fatal(err)
		}

		x := &search.Searcher{Redis: w.Engine, History: d, Routes: w.o.Routes}
		all, app1 := search.Scope{Caller: auth.Local()}, search.Scope{Caller: auth.Caller{Name: "x", Prefix: "app1", Role: auth.Read}}
		for _, c := range []struct {
			box        string
			scope      search.Scope
			live, past int
			both       bool
		}{
			{"4711", all, 2, 0, true},
			{"4711", app1, 1, 0, true},
			{"app1:orders:paid:4711", app1, 1, 0, true},
			{"app2:orders:paid:4711", app1, 0, 0, false},
			{"471", app1, 2, 1, true},
			{"4713", all, 0, 1, false},
			{"5000", all, 1, 0, false},
			{"dead.example", all, 1, 0, true},
			{"failed 1h", all, 1, 0, true},
			{"declined 1h", all, 0, 1, false},
			{"route=b", app1, 0, 0, false},
			{"route=b", all, 1, 0, true},
			{rows[0].ID(), all, 1, 0, true},
			{"30d", all, 3, 1, true},
			{"-30d", all, 3, 1, true},
		} {
			q, err := search.Parse(c.box, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			got, err := x.Search(t.Context(), q, c.scope, search.Page{Limit: 50})
			if err != nil || len(got.Live.Items) != c.live || len(got.Past.Rows) != c.past || got.Live.Err != nil || got.Past.Err != nil {
				t.Errorf("%q: %d in Redis, %d in the history, %v, %v, %v; want %d and %d", c.box, len(got.Live.Items), len(got.Past.Rows), err,
					got.Live.Err, got.Past.Err, c.live, c.past)
				continue
			}
			if got.Live.Why == search.Searched && got.Live.Total != (search.Total{N: c.live, Exact: true}) {
				t.Errorf("%q: the total in Redis is %v", c.box, got.Live.Total)
			}
			both := false
			for i := range got.Live.Items {
				both = both || got.Live.Marked(&got.Live.Items[i])
			}
			if both != c.both {
				t.Errorf("%q: in the history too: %v", c.box, both)
			}
		}

		got, err := x.Search(t.Context(), search.Query{Text: "declined"}, all, search.Page{Limit: 50})
		if err != nil || got.Past.Why != search.NeedsTime {
			t.Errorf("a text without a range of time: %v, %v", got.Past.Why, err)
		}

		got, err = x.Search(t.Context(), search.Query{Begins: "app1:orders:paid:471"}, all, search.Page{Limit: 1})
		if want := (search.Total{N: 3, Exact: true}); err != nil || got.Past.Total != want {
			t.Errorf("the total of the beginning of a key is %v, %v; want %v", got.Past.Total, err, want)
		}

		var file bytes.Buffer
		if _, err := x.File(t.Context(), &file, search.Query{Number: "471"}, app1, nil); err != nil {
			t.Fatal(err)
		}
		lines, err := csv.NewReader(&file).ReadAll()
		if err != nil || len(lines) != 4 {
			t.Fatalf("the file has %q, %v; want a head and three rows", lines, err)
		}
		for _, l := range lines[1:] {
			if l[1] == "app1:orders:paid:4711" && (l[0] != "both" || l[11] != "'=card declined") {
				t.Errorf("a dead letter is %q", l)
			}
		}
	})
}

// A file of parts of keys needs a time where there is a history: without one it would lack the section of the history.
func TestSearchFileOfPartsNeedsTime(t *testing.T) {
	t.Parallel()
	onDatabases(t, func(t *testing.T, d *history.DB) {
		s := newSink(10)
		w := start(t, testkit.SharedRedis(t), s, func(o *Options) { o.History = History{DB: d, Backlog: 1000} }, testRoute("a", "app1"))
		if _, err := w.Schedule(t.Context(), store.Request{Key: "app1:orders:paid:4711"}); err != nil {
			t.Fatal(err)
		}
		s.await(t, 1)
		rowsOf(t, d, history.Query{}, 1)
		with := &search.Searcher{Redis: w.Engine, History: d, Routes: w.o.Routes}
		without := &search.Searcher{Redis: w.Engine, Routes: w.o.Routes}
		for _, c := range []struct {
			x    *search.Searcher
			box  string
			rows int
			why  search.Why
		}{
			{with, "part=71", 0, search.NeedsTime},
			{with, "part=71 1h", 1, search.Searched},
			{with, `"x"`, 0, search.NeedsTime},
			{without, "part=71", 1, search.Searched},
			{without, `"x" 1h`, 0, search.NoHistory},
		} {
			q, err := search.Parse(c.box, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			var file bytes.Buffer
			written, err := c.x.File(t.Context(), &file, q, search.Scope{Caller: auth.Local()}, nil)
			if c.why != search.Searched {
				var un *search.Unsearched
				if !errors.As(err, &un) || un.Why != c.why || written || file.Len() > 0 {
					t.Errorf("%q: %v, written %v, %q", c.box, err, written, file.String())
				}
				continue
			}
			lines, err2 := csv.NewReader(&file).ReadAll()
			if err != nil || err2 != nil || len(lines) != c.rows+1 {
				t.Errorf("%q: %q, %v, %v; want %d rows", c.box, lines, err, err2, c.rows)
			}
		}
	})
}

// Without a history, the section of the history says so.
func TestSearchWithoutHistory(t *testing.T) {
	t.Parallel()
	s := newSink(10)
	w := start(t, testkit.SharedRedis(t), s, nil, testRoute("a", "app1"))
	if _, err := w.Schedule(t.Context(), store.Request{Key: "app1:orders:paid:1"}); err != nil {
		t.Fatal(err)
	}
	s.await(t, 1)
	x := &search.Searcher{Redis: w.Engine, Routes: w.o.Routes}
	got, err := x.Search(t.Context(), search.Query{Number: "1"}, search.Scope{Caller: auth.Local()}, search.Page{Limit: 50})
	if err != nil || got.Past.Why != search.NoHistory || len(got.Live.Items) != 1 {
		t.Errorf("%d in Redis, %v, %v", len(got.Live.Items), got.Past.Why, err)
	}
}
