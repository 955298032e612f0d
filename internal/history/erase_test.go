package history

import (
	"strings"
	"testing"
	"time"

	"notifier/internal/store"

	"go.uber.org/zap"
)

func TestErasedEntriesAreNotWrittenAgain(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, url string) {
		d := open(t, Options{URL: url})
		rows := rowsOf(BodiesKeep, ended(1, nil), ended(2, nil), ended(3, func(e *store.Entry) { e.Host = "other.example" }),
			ended(1, func(e *store.Entry) { e.At, e.Number = noon.Add(time.Hour), 2 }))
		write(t, d, rows[:3])
		erase := func(x Erasure, want int64) {
			t.Helper()
			until := noon.Add(time.Minute)
			if err := d.Refuse(t.Context(), x, until); err != nil {
				t.Fatal(err)
			}
			if n, err := d.Erase(t.Context(), x, until); err != nil || n != want {
				t.Errorf("%+v: %d rows, %v; want %d", x, n, err, want)
			}
		}
		erase(Erasure{Key: rows[0].Key}, 1)
		erase(Erasure{Key: rows[0].Key}, 0)
		// Entries in an outbox are not written, by any instance; later ones are.
		w := write(t, open(t, Options{URL: url}), rows)
		if w != (Written{Rows: 1, Erased: 1}) {
			t.Errorf("%+v", w)
		}
		if got := strings.Join(all(t, d, Query{Limit: 10}), " "); got != "1/2 3/1 2/1" {
			t.Errorf("left: %s", got)
		}
		erase(Erasure{Host: "shop.example"}, 1)
		if got := strings.Join(all(t, d, Query{Limit: 10}), " "); got != "1/2 3/1" {
			t.Errorf("left: %s", got)
		}
		// The same holds for an erased host whose key was not erased.
		if w := write(t, open(t, Options{URL: url}), rows[1:2]); w != (Written{Erased: 1}) {
			t.Errorf("of an erased host: %+v", w)
		}
		if got := strings.Join(all(t, d, Query{Limit: 10}), " "); got != "1/2 3/1" {
			t.Errorf("left: %s", got)
		}
		var digests int
		if err := d.db.QueryRow("SELECT count(*) FROM history_erased").Scan(&digests); err != nil || digests != 2 {
			t.Errorf("%d digests, %v", digests, err)
		}
	})
}

// An erasure during a write deletes the row, or prevents it.
func TestErasureDuringWriteLeavesNoRow(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, url string) {
		q := newQueue(t, 1)
		q.add(t, 0, 400)
		d := open(t, Options{URL: url})
		s := NewShipper(ShipperOptions{Queue: q, Writer: d, Shards: 1, Logger: zap.NewNop()})
		done := make(chan error, 1)
		go func() { done <- s.Ship(t.Context(), 0) }()
		for _, id := range []string{"0", "200", "399"} {
			x, until := Erasure{Key: "app1:orders:paid:" + id}, noon.Add(time.Minute)
			if err := d.Refuse(t.Context(), x, until); err != nil {
				t.Fatal(err)
			}
			if _, err := d.Erase(t.Context(), x, until); err != nil {
				t.Fatal(err)
			}
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		list := all(t, d, Query{Limit: 1000})
		if len(list) != 397 {
			t.Errorf("%d rows, want 397", len(list))
		}
	})
}
