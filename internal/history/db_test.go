package history

import (
	"bytes"
	"errors"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"notifier/internal/notice"
	"notifier/internal/store"
)

func TestRowIsWrittenOnce(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, url string) {
		d := open(t, Options{URL: url})
		rows := rowsOf(BodiesKeep, ended(1, nil), ended(2, nil), ended(1, func(e *store.Entry) { e.Number, e.At = 2, e.At.Add(time.Hour) }))
		if w := write(t, d, rows); w != (Written{Rows: 3}) {
			t.Errorf("%+v", w)
		}
		if w := write(t, d, rows[1:]); w != (Written{}) {
			t.Errorf("again: %+v", w)
		}
		// Eight concurrent writers, each with all rows.
		more := rowsOf(BodiesKeep)
		for i := range 500 {
			more = append(more, rowsOf(BodiesKeep, ended(100+i, nil))...)
		}
		total := make([]int, 8)
		var wg sync.WaitGroup
		for i := range total {
			other := open(t, Options{URL: url})
			wg.Go(func() {
				for _, part := range [][]Row{more[:300], more[200:], more} {
					w, err := other.Write(t.Context(), part)
					if err != nil {
						t.Error(err)
					}
					total[i] += w.Rows
				}
			})
		}
		wg.Wait()
		sum := 0
		for _, n := range total {
			sum += n
		}
		if list := all(t, d, Query{Limit: 100}); len(list) != 503 || sum != 500 {
			t.Errorf("%d rows, of which %d were new; want 503 and 500", len(list), sum)
		}
	})
}

func TestRowRoundTripsEntry(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, url string) {
		d := open(t, Options{URL: url})
		e := ended(1, func(e *store.Entry) {
			e.Outcome, e.Reason, e.Number, e.Endings = notice.EndDead, notice.ReasonStatus, 2, 1
			e.URL, e.Audience, e.Method, e.ContentType, e.Traceparent = "https://me:pass@Shop.Example.:8443/x?a=1", "m1", "PUT", "text/x", "00-1"
			e.Ladder = notice.Ladder{time.Second, time.Minute}
			e.Headers = []notice.Header{{Name: "X-A", Value: "\x00<&ü"}, {Name: "Authorization", Value: "Bearer 123456"}}
			e.Attempts = append(e.Attempts, notice.Attempt{Number: 2, At: noon.Truncate(time.Millisecond), Duration: 1, Reason: notice.ReasonStatus,
				Status: 500, Response: "<b>no & \u0000"})
			e.AttemptsMade = 2
		})
		write(t, d, rowsOf(BodiesKeep, e))
		got, ok, err := d.Latest(t.Context(), e.Key)
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
		want := rowOf(e, BodiesKeep)
		want.Attempts[1].Duration = 0 // kept to the microsecond
		if !reflect.DeepEqual(*got.Notice, *want.Notice) {
			t.Errorf("got  %+v\nwant %+v", *got.Notice, *want.Notice)
		}
		if got.ID() != e.ID() || got.Host != "shop.example" || got.URL != "https://me@Shop.Example.:8443/x?a=1" || !got.Ended.Equal(e.At) ||
			got.Number != 2 ||
			!slices.Equal(got.Withheld, []string{"Authorization"}) || !got.BodyKept || got.Outcome != notice.EndDead {
			t.Errorf("%+v", got)
		}
		var stored string
		if err := d.db.QueryRow("SELECT headers || attempts FROM history").Scan(&stored); err != nil || strings.Contains(stored, "123456") {
			t.Errorf("%s, %v", stored, err)
		}
	})
}

func TestBodies(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, url string) {
		bodies := [][]byte{nil, []byte("plain"), []byte("with\x00zero"), {0xff, 0xfe}, []byte("ü"), bytes.Repeat([]byte("x"), 300_000)}
		d := open(t, Options{URL: url})
		for i, b := range bodies {
			for j, how := range []Bodies{BodiesKeep, BodiesHash, BodiesDrop} {
				e := ended(10*i+j, func(e *store.Entry) { e.Body = b })
				write(t, d, rowsOf(how, e))
				r, ok, err := d.Latest(t.Context(), e.Key)
				if err != nil || !ok || r.BodySize != len(b) {
					t.Fatalf("%q %s: %v %v %+v", b, how, ok, err, r)
				}
				keeps := how == BodiesKeep || len(b) == 0
				if r.BodyKept != keeps || keeps && !bytes.Equal(r.Body, b) || !keeps && r.Body != nil || (r.BodyHash != nil) != (how == BodiesHash &&
					len(b) > 0) {
					t.Errorf("%.20q %s: %+v", b, how, r)
				}
			}
		}
	})
}

func TestFind(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, url string) {
		d := open(t, Options{URL: url})
		// There are no entries and no partition yet.
		if list := all(t, d, Query{Limit: 2}); len(list) != 0 {
			t.Fatal(list)
		}
		var list []store.Entry
		for i := range 20 {
			list = append(list, ended(i, func(e *store.Entry) {
				e.At = noon.Add(time.Duration(i) * 6 * time.Hour)
				switch i % 5 {
				case 3:
					e.Outcome, e.Reason, e.Host = notice.EndDead, notice.ReasonTimeout, "other.example"
				case 4:
					e.Outcome, e.Attempts = notice.EndReplaced, nil
				}
				if i == 7 {
					e.Attempts[0].Response = `said "Ünique"`
				}
				if i == 8 {
					e.Body = []byte("a Needle in it")
				}
			}))
		}
		list = append(list, ended(2, func(e *store.Entry) { e.At, e.Number, e.Outcome = noon.Add(200*time.Hour), 2, notice.EndCancelled }))
		write(t, d, rowsOf(BodiesKeep, list...))
		at := func(i int) time.Time { return noon.Add(time.Duration(i) * 6 * time.Hour) }
		for name, c := range map[string]struct {
			q    Query
			want string
		}{
			"all":            {Query{Limit: 3}, "2/2 19/1 18/1 17/1 16/1 15/1 14/1 13/1 12/1 11/1 10/1 9/1 8/1 7/1 6/1 5/1 4/1 3/1 2/1 1/1 0/1"},
			"a key":          {Query{Key: "app1:orders:paid:2", Limit: 1}, "2/2 2/1"},
			"no such key":    {Query{Key: "app2:orders:paid:2", Limit: 1}, ""},
			"a prefix":       {Query{Prefix: "app2:orders", Since: at(15), Limit: 10}, "19/1 17/1 15/1"},
			"half a segment": {Query{Prefix: "app2:order", Limit: 10}, ""},
			"a window":       {Query{Since: at(3), Until: at(6), Limit: 2}, "5/1 4/1 3/1"},
			"a host":         {Query{Host: "other.example", Until: at(13), Limit: 10}, "8/1 3/1"},
			"outcomes":       {Query{Outcomes: []notice.Ending{notice.EndDead, notice.EndCancelled}, Since: at(10), Limit: 1}, "2/2 18/1 13/1"},
			"delivered": {Query{Outcomes: []notice.Ending{notice.EndDelivered, notice.EndReplaced}, Since: at(16), Until: at(18), Limit: 10},
				"17/1 16/1"},
			"a reason":         {Query{Reason: notice.ReasonTimeout, Limit: 10}, "18/1 13/1 8/1 3/1"},
			"words of a body":  {Query{Text: "needle IN", Since: at(0), Limit: 10}, "8/1"},
			"words of answers": {Query{Text: `SAID "`, Since: at(0), Limit: 10}, "7/1"},
			"words with marks": {Query{Text: "%", Since: at(0), Limit: 10}, ""},
		} {
			if got := strings.Join(all(t, d, c.q), " "); got != c.want {
				t.Errorf("%s: %s\nwant %s", name, got, c.want)
			}
		}
		for _, bad := range []string{"x", "{}", `{"t":-1}`} {
			if _, err := d.Find(t.Context(), Query{Cursor: bad}); !errors.Is(err, ErrCursor) {
				t.Errorf("cursor %s: %v", bad, err)
			}
		}
	})
}

func TestOpenRejectsWrongURL(t *testing.T) {
	t.Parallel()
	for _, u := range []string{"", "mysql://x/y", "sqlite://file", "sqlite:///", "postgres://me:hunter22@[x/y", "sqlite:///dir/"} {
		d, err := Open(Options{URL: u})
		if err == nil {
			_ = d.Close()
		}
		if !errors.Is(err, ErrConfig) || strings.Contains(err.Error(), "hunter22") || !strings.Contains(err.Error(), "want ") {
			t.Errorf("%s: %v", u, err)
		}
	}
	// An unreachable address with a password.
	d := open(t, Options{URL: "postgres://me:hunter22@127.0.0.1:1/x?sslmode=disable"})
	if err := d.Begin(t.Context()); !errors.Is(err, ErrUnavailable) || strings.Contains(err.Error(), "hunter22") {
		t.Errorf("%v", err)
	}
	d = open(t, Options{URL: "sqlite://" + filepath.Join(t.TempDir(), "no", "such", "dir.db")})
	if err := d.Begin(t.Context()); !errors.Is(err, ErrUnavailable) {
		t.Errorf("%v", err)
	}
}

func TestConcurrentBeginsUpgradeOnce(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, url string) {
		var wg sync.WaitGroup
		if has, err := open(t, Options{URL: url}).Version(t.Context()); err != nil || has != 0 {
			t.Errorf("before: version %d, %v", has, err)
		}
		for i := range 8 {
			d := open(t, Options{URL: url})
			wg.Go(func() {
				if err := d.Begin(t.Context()); err != nil {
					t.Errorf("%d: %v", i, err)
				}
			})
		}
		wg.Wait()
		d := open(t, Options{URL: url})
		if err := d.Begin(t.Context()); err != nil {
			t.Fatal(err)
		}
		if has, err := d.Version(t.Context()); err != nil || has != Newest {
			t.Errorf("version %d of %d, %v", has, Newest, err)
		}
	})
}

func TestNewerSchemaIsRefused(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, url string) {
		d := open(t, Options{URL: url})
		write(t, d, rowsOf(BodiesKeep, ended(1, nil)))
		if _, err := d.db.Exec("INSERT INTO history_schema (version_id, is_applied) VALUES (99, true)"); err != nil {
			t.Fatal(err)
		}
		older := open(t, Options{URL: url})
		_, err := older.Write(t.Context(), rowsOf(BodiesKeep, ended(2, nil)))
		if !errors.Is(err, ErrNewer) || !strings.Contains(err.Error(), "run the version") {
			t.Errorf("%v", err)
		}
	})
}

func TestRetention(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, url string) {
		d := open(t, Options{URL: url, Retention: 48 * time.Hour})
		now := time.Now()
		first := now.AddDate(0, 0, -5)
		var rows []Row
		for i := range 6 {
			rows = append(rows, rowsOf(BodiesKeep, ended(i, func(e *store.Entry) { e.At = first.AddDate(0, 0, i) }))...)
		}
		write(t, d, rows)
		if _, err := d.Expire(t.Context(), now); err != nil {
			t.Fatal(err)
		}
		// PostgreSQL drops whole days, SQLite rows that are too old to the second.
		if got := strings.Join(all(t, d, Query{Limit: 10}), " "); got != "5/1 4/1 3/1" {
			t.Errorf("left: %s", got)
		}
		if n, err := d.Expire(t.Context(), now); err != nil || n != 0 {
			t.Errorf("again: %d, %v", n, err)
		}
		// A late row for a dropped day is written, and dropped again.
		write(t, d, rows[:1])
		if n, err := d.Expire(t.Context(), now); err != nil || n != 1 {
			t.Errorf("late: %d, %v", n, err)
		}
		keeps := open(t, Options{URL: url})
		if n, err := keeps.Expire(t.Context(), now); err != nil || n != 0 {
			t.Errorf("without a retention %d went, %v", n, err)
		}
	})
}

// The clocks of the database and of Redis must agree before anything is deleted. With SQLite, the database's clock is that
// of the instance's machine: one that is 40 days ahead must not empty a history of 30 days.
func TestWrongClockDeletesNoHistory(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, url string) {
		d := open(t, Options{URL: url, Retention: 30 * 24 * time.Hour})
		now := time.Now()
		rows := rowsOf(BodiesKeep, ended(1, func(e *store.Entry) { e.At = now.AddDate(0, 0, -45) }))
		write(t, d, rows)
		for _, redis := range []time.Time{now.AddDate(0, 0, -40), now.AddDate(0, 0, 40), now.Add(-10 * time.Minute)} {
			if n, err := d.Expire(t.Context(), redis); n != 0 || !errors.Is(err, ErrClocks) {
				t.Errorf("Redis's clock %s ahead: %d deleted, %v", redis.Sub(now), n, err)
			}
		}
		if n, err := d.Expire(t.Context(), now.Add(-time.Minute)); n != 1 || err != nil {
			t.Errorf("%d deleted, %v", n, err)
		}
	})
}
