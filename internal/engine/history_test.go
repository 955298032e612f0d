package engine

import (
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"notifier/internal/history"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/store"
	"notifier/internal/testkit"
	_ "notifier/worker/sqlitehistory"
)

// keeps starts an engine with a history in SQLite.
func keeps(t *testing.T, srv *testkit.Redis, s *sink, change func(*Options), routes ...*route.Route) (*world, *history.DB) {
	t.Helper()
	d, err := history.Open(history.Options{URL: "sqlite://" + filepath.Join(t.TempDir(), "history.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return start(t, srv, s, func(o *Options) {
		o.History = History{DB: d, Backlog: 1000}
		if change != nil {
			change(o)
		}
	}, routes...), d
}

// rows waits until a query finds n.
func rowsOf(t *testing.T, d *history.DB, q history.Query, n int) []history.Row {
	t.Helper()
	q.Limit = 1000
	var page history.Page
	eventually(t, "the history has the rows", func() bool {
		var err error
		if page, err = d.Find(t.Context(), q); err != nil {
			t.Fatal(err)
		}
		return len(page.Rows) >= n
	})
	if len(page.Rows) != n {
		t.Fatalf("%d rows, want %d", len(page.Rows), n)
	}
	return page.Rows
}

func TestWhatIsErasedIsNowhere(t *testing.T) {
	t.Parallel()
	srv := testkit.SharedRedis(t)
	s := newSink(100)
	s.answer = func(n *notice.Notice) notice.Result {
		if n.URL == "https://dead.example/x" {
			return notice.DeadResult(notice.ReasonGone, "no")
		}
		return notice.DeliveredResult(200)
	}
	fixed, own := testRoute("fixed", "app1:fixed"), testRoute("own", "app1:own")
	fixed.Target = route.Target{Kind: route.KindFixed, URL: &url.URL{Scheme: "https", Host: "Fixed.example:8443"}}
	own.Target.Kind = route.KindNotice
	w, d := keeps(t, srv, s, nil, fixed, own)
	put := func(key, address string) {
		t.Helper()
		if _, err := w.Schedule(t.Context(), store.Request{Key: key, Content: notice.Content{URL: address, Body: []byte(`1`)}}); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range []string{"1", "2", "3"} {
		put("app1:fixed:t:"+id, "")
		put("app1:own:t:"+id, "https://dead.example/x")
	}
	put("app1:own:t:4", "https://other.example/x")
	s.await(t, 7)
	rowsOf(t, d, history.Query{}, 7)
	rowsOf(t, d, history.Query{Host: "fixed.example"}, 3)
	erase := func(x history.Erasure, want history.Erased) {
		t.Helper()
		if got, err := w.Erase(t.Context(), x); err != nil || got != want {
			t.Fatalf("%+v: %+v, %v; want %+v", x, got, err, want)
		}
	}
	erase(history.Erasure{Key: "app1:fixed:t:1"}, history.Erased{Rows: 1, Redis: 1})
	erase(history.Erasure{Host: "dead.example"}, history.Erased{Rows: 3, Redis: 3})
	erase(history.Erasure{Host: "dead.example"}, history.Erased{})
	erase(history.Erasure{Host: "fixed.example"}, history.Erased{Rows: 2, Redis: 2})
	rowsOf(t, d, history.Query{}, 1)
	for _, key := range []string{"app1:fixed:t:1", "app1:own:t:2"} {
		if f, err := w.Find(t.Context(), key); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s: %+v, %v", key, f, err)
		}
	}
	// A pending notice stays, and has a row when it is finalized.
	if _, err := w.Schedule(t.Context(), store.Request{Key: "app1:fixed:t:9", Delay: time.Hour}); err != nil {
		t.Fatal(err)
	}
	erase(history.Erasure{Key: "app1:fixed:t:9"}, history.Erased{Pending: 1})
	if _, err := w.Cancel(t.Context(), "app1:fixed:t:9"); err != nil {
		t.Fatal(err)
	}
	rowsOf(t, d, history.Query{Key: "app1:fixed:t:9"}, 1)
}

// A repeated schedule call finds the tombstone of a notice that was trimmed, until that is erased.
func TestEraseRemovesTombstones(t *testing.T) {
	t.Parallel()
	srv := testkit.SharedRedis(t)
	s := newSink(100)
	own := testRoute("own", "app1:own")
	own.Target.Kind = route.KindNotice
	w, d := keeps(t, srv, s, func(o *Options) { o.Retain, o.RepeatWindow, o.RepeatBytes = 0, time.Hour, 1<<20 }, own)
	request := func(i int) store.Request {
		return store.Request{Key: fmt.Sprintf("app1:own:t:%d", i), Content: notice.Content{URL: "https://one.example/x", Body: []byte(`1`)}}
	}
	for i := range 3 {
		if _, err := w.Schedule(t.Context(), request(i)); err != nil {
			t.Fatal(err)
		}
	}
	s.await(t, 3)
	rowsOf(t, d, history.Query{}, 3)
	if n, _, err := w.store.Trim(t.Context(), 0, []store.Trim{{Prefix: "app1:own"}}, 10); err != nil || n > 3 {
		t.Fatal(n, err)
	}
	again := func(i int) store.Reply {
		t.Helper()
		reply, err := w.Schedule(t.Context(), request(i))
		if err != nil {
			t.Fatal(err)
		}
		return reply
	}
	for i := range 3 {
		if r := again(i); r.Created || r.State != notice.Settled {
			t.Fatalf("%d: %+v", i, r)
		}
	}
	if _, err := w.Erase(t.Context(), history.Erasure{Key: "app1:own:t:0"}); err != nil {
		t.Fatal(err)
	}
	if !again(0).Created || again(1).Created {
		t.Error("the erased key has a tombstone, or another one has none")
	}
	if _, err := w.Erase(t.Context(), history.Erasure{Host: "one.example"}); err != nil {
		t.Fatal(err)
	}
	if !again(1).Created || !again(2).Created {
		t.Error("the erased host's notices have tombstones")
	}
}

// Nothing but the list has an ending where Redis keeps nothing.
func TestWithoutRetentionEachEndingHasItsRow(t *testing.T) {
	t.Parallel()
	srv := testkit.SharedRedis(t)
	s := newSink(100)
	w, d := keeps(t, srv, s, func(o *Options) { o.Retention = 0 }, testRoute("r", "app1"))
	for _, id := range []string{"1", "2", "3"} {
		if _, err := w.Schedule(t.Context(), store.Request{Key: "app1:a:b:" + id}); err != nil {
			t.Fatal(err)
		}
	}
	s.await(t, 3)
	for _, r := range rowsOf(t, d, history.Query{}, 3) {
		if r.Outcome != notice.EndDelivered || len(r.Attempts) != 1 {
			t.Errorf("%+v %+v", r, r.Notice)
		}
	}
	g, err := w.Gauges(t.Context())
	if err != nil || g.History == nil || g.History.Bound != 1000 || g.History.Lost != 0 {
		t.Errorf("%+v, %v", g.History, err)
	}
}

// Each ending of a dead letter that is purged, put back and redriven has its row and its
// number, whether Redis or only the history knows that it was purged.
func TestWhatIsPutBackIsCountedOn(t *testing.T) {
	t.Parallel()
	for name, retention := range map[string]time.Duration{"Redis knows": time.Hour, "only the history knows": 0} {
		t.Run(name, func(t *testing.T) {
			const key = "app1:a:b:1"
			s := newSink(100)
			var deliver atomic.Bool
			s.answer = func(*notice.Notice) notice.Result {
				if deliver.Load() {
					return notice.DeliveredResult(200)
				}
				return notice.DeadResult(notice.ReasonGone, "no")
			}
			w, d := keeps(t, testkit.SharedRedis(t), s, func(o *Options) { o.Retention = retention }, testRoute("r", "app1"))
			if _, err := w.Schedule(t.Context(), store.Request{Key: key, Content: notice.Content{Body: []byte("1")}}); err != nil {
				t.Fatal(err)
			}
			s.await(t, 1)
			var f store.Found
			eventually(t, "it is dead", func() bool {
				var err error
				if f, err = w.Find(t.Context(), key); err != nil {
					t.Fatal(err)
				}
				return f.State == notice.Dead
			})
			letter := store.Letter{Notice: f.Notice, Died: f.SettledAt} // as an export has it
			for times := range 3 {
				if _, err := w.Cancel(t.Context(), key); err != nil {
					t.Fatal(err)
				}
				if retention == 0 {
					rowsOf(t, d, history.Query{Key: key}, 2+times)
				}
				if r := w.Restore(t.Context(), []store.Letter{letter}); !r[0].Created || r[0].Err != nil {
					t.Fatalf("%+v", r)
				}
			}
			deliver.Store(true)
			if _, err := w.Redrive(t.Context(), key, notice.Expiry{}); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, r := range rowsOf(t, d, history.Query{Key: key}, 5) {
				got = append(got, fmt.Sprintf("%s %d", r.Outcome, r.Number))
				if r.ID() != letter.ID() {
					t.Errorf("%s has another webhook-id", got)
				}
			}
			if want := []string{"delivered 5", "cancelled 4", "cancelled 3", "cancelled 2", "dead 1"}; !slices.Equal(got, want) {
				t.Errorf("the history has %v, want %v", got, want)
			}
		})
	}
}

// Two services that share a database by mistake: the replay of one called the receivers of
// the other.
func TestHistoryOfAnotherServiceIsRefused(t *testing.T) {
	t.Parallel()
	onDatabaseURLs(t, func(t *testing.T, url string) {
		d, same := openHistory(t, url), openHistory(t, url)
		theirs := newSink(100)
		first := start(t, testkit.SharedRedis(t), theirs, func(o *Options) { o.History = History{DB: d, Backlog: 1000} },
			testRoute("r", "app1"))
		first.put(t, 3, func(i int) store.Request { return store.Request{Key: key(i)} })
		theirs.await(t, 3)
		rowsOf(t, d, history.Query{}, 3)

		s := newSink(100)
		second := start(t, testkit.SharedRedis(t), s, func(o *Options) { o.History = History{DB: same, Backlog: 1000} }, testRoute("r", "app1"))
		if _, err := second.Replays().Make(t.Context(), asked(func(r *history.Replay) { r.Outcomes = outcomes(notice.EndDelivered) }),
			false); !errors.Is(err, history.ErrForeign) {
			t.Errorf("makes a replay: %v", err)
		}

		// Delivery goes on, and its own endings wait.
		second.put(t, 5, func(i int) store.Request { return store.Request{Key: key(100 + i)} })
		s.await(t, 5)
		eventually(t, "its endings wait", func() bool {
			n, err := second.outbox().Length(t.Context())
			return err == nil && n == 5
		})
		rowsOf(t, d, history.Query{}, 3)

		owner, ok, err := same.Owner(t.Context())
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
		mine, err := second.historyOwner(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if changed, err := same.Claim(t.Context(), owner.ID, mine); err != nil || !changed {
			t.Fatal(changed, err)
		}
		if _, err := d.Find(t.Context(), history.Query{}); !errors.Is(err, history.ErrForeign) {
			t.Errorf("the first service finds: %v", err)
		}
		if err := second.shipper.Ship(t.Context(), 0); err != nil {
			t.Error(err)
		}
		rowsOf(t, same, history.Query{}, 8)
	})
}
