package history

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"notifier/internal/notice"
	"notifier/internal/store"
)

// reported returns a report of the day of noon.
func reported(t *testing.T, d *DB, change func(q *ReportQuery)) *Report {
	t.Helper()
	q := ReportQuery{Since: noon.Truncate(24 * time.Hour), Until: noon.Truncate(24*time.Hour).AddDate(0, 0, 1), By: ByReceiver, Limit: 100}
	if change != nil {
		change(&q)
	}
	r, err := d.MonthReport(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// mixed returns entries of all kinds, and their latencies.
func mixed(n int) (list []store.Entry, latencies []time.Duration) {
	random := rand.New(rand.NewPCG(1, 2))
	for i := range n {
		latency := time.Duration(math.Exp(random.Float64()*18)*1000) * time.Microsecond
		list = append(list, ended(i, func(e *store.Entry) {
			e.Notice.Attempts[0].At = e.At.Add(-latency).Truncate(time.Millisecond)
			latency = e.At.Sub(e.Notice.Attempts[0].At)
			e.Host = fmt.Sprintf("shop%d.example", i%3)
			switch i % 10 {
			case 0:
				e.Outcome, e.Notice.Reason = notice.EndDead, notice.ReasonTimeout
			case 1:
				e.Notice.AttemptsMade = 3
			case 2:
				e.Number, e.Notice.Endings = 2, 1
			}
		}))
		if i%10 != 0 && i%10 != 2 {
			latencies = append(latencies, latency)
		}
	}
	slices.Sort(latencies)
	return list, latencies
}

func TestReportCountsNotices(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, url string) {
		d := open(t, Options{URL: url})
		list, latencies := mixed(1000)
		rows := rowsOf(BodiesKeep, list...)
		write(t, d, rows)
		if w := write(t, d, append(rows[:200:200], rows[3])); w.Rows != 0 {
			t.Fatalf("%d rows are new in a repeated write", w.Rows)
		}
		if _, err := d.Recount(t.Context(), noon); err != nil {
			t.Fatal(err)
		}
		r := reported(t, d, nil)
		want := Line{Notices: 900, Delivered: 800, First: 700, Dead: 100, Later: 100, LaterDelivered: 100, Timed: 800}
		for _, l := range latencies {
			for _, x := range []struct {
				to    *int64
				bound time.Duration
			}{{&want.InMinute, time.Minute}, {&want.InHour, time.Hour}, {&want.InDay, 24 * time.Hour}} {
				if l <= x.bound {
					*x.to++
				}
			}
		}
		got := r.Total
		for _, x := range []struct {
			name string
			got  time.Duration
			want time.Duration
		}{{"median", got.Median, latencies[399]}, {"p99", got.P99, latencies[791]}} {
			if off := (x.got - x.want).Abs(); off > x.want/20 && off > time.Millisecond {
				t.Errorf("%s is %s, want %s within 5 %%", x.name, x.got, x.want)
			}
		}
		got.Median, got.P99 = 0, 0
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("total\n%+v, want\n%+v", got, want)
		}
		if r.Counting || r.Groups != 3 || len(r.Lines) != 3 || r.Lines[0].Name != "shop0.example" {
			t.Errorf("%+v", r)
		}
		// A window between whole hours, a prefix, and the other groups.
		r = reported(t, d, func(q *ReportQuery) { q.By, q.Since = ByRoute, noon.Truncate(time.Hour).Add(-30*time.Minute) })
		if r.Total.Notices != 900 || r.Groups != 2 || r.Lines[0].Name != "app2" || r.Lines[0].Notices != 500 {
			t.Errorf("%+v", r)
		}
		r = reported(t, d, func(q *ReportQuery) { q.By, q.Until, q.Prefix = ByType, noon.Add(500*time.Second), "app1:orders" })
		if r.Total.Notices+r.Total.Later != 250 || r.Groups != 1 || r.Lines[0].Name != "app1:orders:paid" {
			t.Errorf("%+v", r)
		}
	})
}

func TestErasedEntriesLeaveReport(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, url string) {
		d := open(t, Options{URL: url})
		list, _ := mixed(300)
		write(t, d, rowsOf(BodiesKeep, list...))
		if n, err := d.Erase(t.Context(), Erasure{Host: "shop1.example"}, noon.Add(time.Hour)); n != 100 || err != nil {
			t.Fatal(n, err)
		}
		if n, err := d.Erase(t.Context(), Erasure{Key: list[3].Notice.Key}, noon.Add(time.Hour)); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		r := reported(t, d, nil)
		if r.Total.Notices+r.Total.Later != 199 || r.Groups != 2 {
			t.Errorf("%+v", r)
		}
		if n := hoursOf(t, d, "host = 'shop1.example' OR n <= 0"); n != 0 {
			t.Errorf("%d counts of an erased host", n)
		}
		d.o.Retention = 24 * time.Hour
		if _, err := d.Expire(t.Context(), time.Now()); err != nil {
			t.Fatal(err)
		}
		// The test's day is past or to come.
		if n, rows := hoursOf(t, d, "1 = 1"), len(all(t, d, Query{Limit: 500})); (n == 0) != (rows == 0) {
			t.Errorf("%d counts, %d rows after the retention", n, rows)
		}
	})
}

func hoursOf(t *testing.T, d *DB, where string) (n int) {
	t.Helper()
	if err := d.db.QueryRowContext(t.Context(), "SELECT count(*) FROM history_hours WHERE "+where).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// Entries of before the table, or of an instance of an older version, are counted later, also after an erasure of some.
func TestOldEntriesAreCounted(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, url string) {
		d := open(t, Options{URL: url})
		list, _ := mixed(600)
		for i := range list {
			list[i].At = list[i].At.Add(time.Duration(i/100) * 9 * time.Hour)
		}
		write(t, d, rowsOf(BodiesKeep, list...))
		whole := func(q *ReportQuery) { q.Until = q.Until.AddDate(0, 0, 5) }
		if r := reported(t, d, whole); !r.Counting {
			t.Error("nothing says that entries have not been counted")
		}
		if _, err := d.Recount(t.Context(), noon); err != nil {
			t.Fatal(err)
		}
		want := reported(t, d, whole)
		if want.Counting || want.Total.Notices+want.Total.Later != 600 {
			t.Errorf("%+v", want.Total)
		}
		for _, text := range []string{"DELETE FROM history_hours WHERE host = 'shop1.example'", "DELETE FROM history_counted"} {
			if _, err := d.db.ExecContext(t.Context(), text); err != nil {
				t.Fatal(err)
			}
		}
		if n, err := d.Erase(t.Context(), Erasure{Key: list[1].Notice.Key}, noon.AddDate(0, 0, 9)); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		if n, err := d.Recount(t.Context(), noon); n != 6 || err != nil {
			t.Fatal(n, err)
		}
		got := reported(t, d, whole)
		if got.Counting || got.Total.Notices+got.Total.Later != 599 {
			t.Errorf("%+v", got.Total)
		}
		if n, err := d.Recount(t.Context(), noon); n != 0 || err != nil {
			t.Error(n, err)
		}
	})
}

func TestBinIsWithinFivePercent(t *testing.T) {
	t.Parallel()
	for latency := int64(0); latency < 300*day; latency += latency/1000 + 50 {
		got := latencyOf(binOf(latency)).Microseconds()
		if off := max(got-latency, latency-got); off > latency/20 && off > 1000 {
			t.Fatalf("%d µs counts as %d", latency, got)
		}
	}
	for _, bound := range []int64{minute, hour, day} {
		if edges[binOf(bound)-1] != bound || edges[binOf(bound+1)-1] <= bound {
			t.Errorf("%d is no end of a bin", bound)
		}
	}
}
