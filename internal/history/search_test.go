package history

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"testing"
	"time"

	"notifier/internal/testkit"
)

// Text searches of one client blocked the history for all others and, with SQLite, blocked writes.
func TestTextSearchesDoNotBlockOthers(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, url string) {
		d := open(t, Options{URL: url})
		rows := rowsOf(BodiesKeep, ended(1, nil), ended(2, nil))
		write(t, d, rows[:1])

		// Use all connections for searches, as slow searches do.
		var taken []*sql.Conn
		for range searchConns {
			c, err := d.searches.Conn(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			taken = append(taken, c)
		}
		var running sync.WaitGroup
		search := func(client string) error {
			_, err := d.Find(t.Context(), Query{Client: client, Text: "thanks", Since: noon, Limit: 1})
			return err
		}
		for _, client := range []string{"a", "a", "b", "c"} {
			running.Go(func() {
				if err := search(client); err != nil {
					t.Errorf("an admitted search of %s: %v", client, err)
				}
			})
		}
		testkit.Until(t, "four searches run", func() bool {
			d.texts.mu.Lock()
			defer d.texts.mu.Unlock()
			return d.texts.all == mostTexts
		})
		for _, client := range []string{"a", "b", "d"} {
			if err := search(client); !errors.Is(err, ErrBusy) {
				t.Errorf("one more search of %s: %v", client, err)
			}
		}

		if _, ok, err := d.Latest(t.Context(), rows[0].Key); err != nil || !ok {
			t.Errorf("lookup: %v, %v", ok, err)
		}
		if _, ok, err := d.Latest(t.Context(), "app1:none:none:none"); err != nil || ok {
			t.Errorf("lookup of no notice: %v, %v", ok, err)
		}
		write(t, d, rows[1:])
		short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := d.Find(short, Query{Limit: 1}); !errors.Is(err, ErrSlow) {
			t.Errorf("another search: %v", err)
		}

		for _, c := range taken {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
		running.Wait()
		if err := search("a"); err != nil {
			t.Errorf("afterwards: %v", err)
		}
	})
}

func TestClientRunsAtMostTwoTextSearches(t *testing.T) {
	t.Parallel()
	var x texts
	for i, want := range []bool{true, true, false} {
		if x.begin("a") != want {
			t.Errorf("search %d of a client: want %v", i+1, want)
		}
	}
	if !x.begin("b") {
		t.Error("another client may run one")
	}
	x.end("a")
	if !x.begin("a") || !x.begin("c") || x.begin("d") {
		t.Error("four may run")
	}
}

// The producer got a 422, as if the call were wrong.
func TestLookupThatTimesOutIsUnavailable(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, url string) {
		d := open(t, Options{URL: url})
		write(t, d, rowsOf(BodiesKeep, ended(1, nil)))
		for range lookupConns {
			c, err := d.lookups.Conn(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
		}
		short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		if _, _, err := d.Latest(short, "app1:orders:paid:1"); !errors.Is(err, ErrUnavailable) {
			t.Errorf("%v", err)
		}
	})
}
