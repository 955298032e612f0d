//go:build measure

package search

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"notifier/internal/auth"
	"notifier/internal/history"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/store"
)

// noRedis is a Redis without notices.
type noRedis struct{}

func (noRedis) Find(context.Context, string) (store.Found, error) {
	return store.Found{}, store.ErrNotFound
}
func (noRedis) List(context.Context, store.Query) (store.Page, error) { return store.Page{}, nil }
func (noRedis) Unrouted(context.Context) ([]string, error)            { return nil, nil }

// TestMeasureSearch fills a SQLite history with HISTORY_ROWS rows (1,000,000), over thirty days, a thousand hosts and ten
// types of keys, one percent of them dead, and measures searches with their totals.
func TestMeasureSearch(t *testing.T) {
	n := 1_000_000
	if s := os.Getenv("HISTORY_ROWS"); s != "" {
		n, _ = strconv.Atoi(s)
	}
	d, err := history.Open(history.Options{URL: "sqlite://" + filepath.Join(t.TempDir(), "history.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	now := time.Now().UTC()
	from := now
	const batch = 2000
	for first := 0; first < n; first += batch {
		rows := make([]history.Row, batch)
		for i := range rows {
			rows[i] = measured(first+i, now.Add(-time.Duration(n-first-i)*30*24*time.Hour/time.Duration(n)))
		}
		if _, err := d.Write(t.Context(), rows); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d rows in %s", n, time.Since(from).Round(time.Second))
	table, err := route.NewTable(nil)
	if err != nil {
		t.Fatal(err)
	}
	x := &Searcher{Redis: noRedis{}, History: d, Routes: table}
	all := Scope{Caller: auth.Local()}
	id := measured(n/2, now).Notice
	for _, box := range []string{strconv.Itoa(n / 2), "12", fmt.Sprintf("app1:orders:t1:%d", 10*(n/20)+1), "app1:orders:", id.ID(),
		"shop7.example",

		"shop7.example failed 7d", "failed yesterday 10-11", "failed", "7d", "30d", "reason=timeout 1d", "part=4711 1d", "part=4711 30d",
		"declined 1h", "declined 30d", "nowhere 1d", "delivered", "yesterday"} {
		q, err := Parse(box, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		var took []time.Duration
		var got Answer
		for range 5 {
			began := time.Now()
			if got, err = x.Search(t.Context(), q, all, Page{Limit: 50}); err != nil {
				t.Fatal(err)
			}
			took = append(took, time.Since(began))
		}
		slices.Sort(took)
		total := strconv.Itoa(got.Past.Total.N)
		if !got.Past.Total.Exact {
			total = "more than " + total
		}
		t.Logf("%-36q p50 %8s, max %8s, %3d rows, %s %v", box, took[2].Round(100*time.Microsecond), took[4].Round(100*time.Microsecond),
			len(got.Past.Rows), total, got.Past.Err)
	}
}

// measured is entry i, finalized at a time.
func measured(i int, at time.Time) history.Row {
	r := history.Row{Outcome: notice.EndDelivered, Number: 1, Ended: at, Host: fmt.Sprintf("shop%d.example", i%1000),
		BodyKept: true, BodySize: 60, Notice: &notice.Notice{Key: fmt.Sprintf("app%d:orders:t%d:%d", i%2, i%10, i),
			Route: fmt.Sprintf("app%d:orders", i%2),
			Made:  notice.MadeAt(time.UnixMilli(1_760_000_000_000 + int64(i))), Due: at, AttemptsMade: 1,
			Content:  notice.Content{URL: fmt.Sprintf("https://shop%d.example/hook", i%1000), Body: fmt.Appendf(nil, `{"order":%d,"amount":"12.50"}`, i)},
			Attempts: []notice.Attempt{{Number: 1, At: at, Status: 200, Duration: 12 * time.Millisecond, Response: "ok"}}}}
	if i%100 == 0 {
		r.Outcome, r.Reason = notice.EndDead, notice.ReasonTimeout
		r.Attempts[0].Status, r.Attempts[0].Reason, r.Attempts[0].Response = 500, notice.ReasonStatus5xx, "card declined"
	}
	return r
}
