//go:build measure

package history

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"notifier/internal/store"
	"notifier/internal/testkit"
)

// TestMeasureWrite writes HISTORY_ROWS rows (200,000) of thirty days, a thousand hosts and ten routes as a relay does, every
// other batch without the counts of hours, and measures reports of the month. The rows of the other batches are
// counted by Recount.
func TestMeasureWrite(t *testing.T) {
	t.Parallel()
	n := 200_000
	if s := os.Getenv("HISTORY_ROWS"); s != "" {
		n, _ = strconv.Atoi(s)
	}
	urls := map[string]string{"postgres": testkit.StartPostgres(t).Database()}
	if os.Getenv("HISTORY_ROWS") == "" {
		urls["sqlite"] = "sqlite://" + filepath.Join(t.TempDir(), "history.db")
	}
	for name, url := range urls {
		measureWrite(t, name, open(t, Options{URL: url}), n)
	}
}

// writeUncounted is write without the counts of hours.
func (d *DB) writeUncounted(ctx context.Context, rows []Row) error {
	tx, err := d.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	insert := d.insertSQLite
	if !d.sqlite {
		insert = d.insertPostgres
		if _, err := tx.ExecContext(ctx, "LOCK TABLE history IN ROW EXCLUSIVE MODE"); err != nil {
			return err
		}
	}
	if rows, err = d.unerased(ctx, tx, rows, &Written{}); err != nil {
		return err
	}
	if _, err := insert(ctx, tx, rows); err != nil {
		return err
	}
	return tx.Commit()
}

func measureWrite(t *testing.T, name string, d *DB, n int) {
	first := noon.Truncate(24*time.Hour).AddDate(0, 0, -19) // 2026-11-01
	var with, without []time.Duration
	for i := 0; i < n; i += batchRows {
		rows := make([]Row, batchRows)
		for j := range rows {
			x := i + j
			rows[j] = rowOf(ended(x, func(e *store.Entry) {
				e.At = first.Add(30 * 24 * time.Hour / time.Duration(n) * time.Duration(x))
				e.Host = fmt.Sprintf("shop%d.example", x*7919%1000)
				e.Notice.Key = fmt.Sprintf("app%d:orders:paid:%d", x*7919%10, x)
				e.Notice.Route = fmt.Sprintf("app%d", x*7919%10)
				e.Notice.Attempts[0].At = e.At.Add(-time.Duration(1+x*31%400) * time.Millisecond)
			}), BodiesKeep)
		}
		if _, err := d.Write(t.Context(), rows[:1]); err != nil { // its partition
			t.Fatal(err)
		}
		if err := d.makeDays(t.Context(), rows); err != nil {
			t.Fatal(err)
		}
		to, insert := &with, func() error { _, err := d.write(t.Context(), rows); return err }
		if i/batchRows%2 == 1 {
			to, insert = &without, func() error { return d.writeUncounted(t.Context(), rows) }
		}
		from := time.Now()
		if err := insert(); err != nil {
			t.Fatal(err)
		}
		*to = append(*to, time.Since(from))
	}
	slices.Sort(with)
	slices.Sort(without)
	a, b := with[len(with)/2], without[len(without)/2]
	t.Logf("%s: a batch of %d rows in %s with and %s without counts (medians): %.2f times", name, batchRows, a, b, float64(a)/float64(b))
	from := time.Now()
	hours, err := d.Recount(t.Context(), first.AddDate(0, 1, 0))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s: recounted %d hours in %s; %d counts", name, hours, time.Since(from).Round(time.Millisecond), hoursOf(t, d, "1 = 1"))
	measureReports(t, name, d)
}

// TestMeasureReports fills the counts of hours as HISTORY_ROWS rows (10,000,000) would that all differ in hour, host or latency, and
// measures reports of the month. There are no rows, and half-hour zones need those of two half hours only.
func TestMeasureReports(t *testing.T) {
	t.Parallel()
	n := 10_000_000
	if s := os.Getenv("HISTORY_ROWS"); s != "" {
		n, _ = strconv.Atoi(s)
	}
	const hosts, hours = 1000, 720
	d := open(t, Options{URL: testkit.StartPostgres(t).Database()})
	if _, err := d.Write(t.Context(), []Row{rowOf(ended(0, nil), BodiesKeep)}); err != nil { // which makes the tables
		t.Fatal(err)
	}
	_, err := d.db.ExecContext(t.Context(), `INSERT INTO history_hours
		SELECT timestamptz '2026-11-01 00:00Z' + (x / $1) % $2 * interval '1 hour', 'app', 'orders', 'paid', 'app:orders',
			'shop' || x % $1 || '.example', x / ($1 * $2) * 7 % 600, 1 FROM generate_series(0, $3::bigint - 1) x`, hosts, hours, n)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.setCounted(t.Context(), time.Unix(0, 0).UTC()); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d counts", hoursOf(t, d, "1 = 1"))
	measureReports(t, "postgres", d)
}

// measureReports logs how long reports of the month take.
func measureReports(t *testing.T, name string, d *DB) {
	t.Helper()
	zone, _ := time.LoadLocation("Asia/Kolkata")
	for _, by := range Groups {
		for _, zone := range []*time.Location{time.UTC, zone} {
			since, until, _ := Month("2026-11", zone)
			from := time.Now()
			r, err := d.MonthReport(t.Context(), ReportQuery{Since: since, Until: until, By: by, Limit: 1000})
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%s: by %s in %s: %s, %d notices, %d groups, p99 %s", name, by, zone, time.Since(from).Round(time.Millisecond), r.Total.Notices,
				r.Groups, r.Total.P99)
		}
	}
}
