package history

import (
	"context"
	"database/sql"
	"errors"
	mathrand "math/rand/v2"
	"time"

	"go.uber.org/zap"

	"notifier/internal/notice"
	"notifier/internal/pace"
)

// hoursLock is the advisory lock of the instance that counts entries.
const hoursLock = 0x6e6f746966794852

// recheck is how long after its end an hour is checked again, because instances of a version without history_hours
// may still have written entries.
const recheck = 6 * time.Hour

// Recount repairs the counts of the hours whose number of entries differs from the number counted, and returns the number
// of hours repaired: entries of before the table history_hours, of an instance of an older version, or that
// another program deleted. The first run checks all hours, the latest first; a later one only those of the last six hours
// before now, the time of Redis's clock. If another instance runs it, Recount returns 0. It fails with errUnowned before the
// first entry.
func (d *DB) Recount(ctx context.Context, now time.Time) (repaired int, err error) {
	owned, err := d.begin(ctx)
	if err == nil && !owned {
		err = errUnowned
	}

	if err != nil {
		return 0, err
	}

	c, err := d.db.Conn(ctx)
	if err != nil {
		return 0, d.wrap("count", err)
	}

	defer func() { _ = c.Close() }() // returns the connection to the pool

	if !d.sqlite {
		var first bool
		if err := c.QueryRowContext(ctx, "SELECT pg_try_advisory_lock($1)", int64(hoursLock)).Scan(&first); err != nil || !first {
			return 0, d.wrap("count", err)
		}

		defer func() {
			_, _ = c.ExecContext(context.WithoutCancel(ctx), "SELECT pg_advisory_unlock($1)", int64(hoursLock)) // a lost connection has none
		}()
	}

	repaired, err = d.recount(ctx, now)
	return repaired, d.wrap("count", err)
}

func (d *DB) recount(ctx context.Context, now time.Time) (repaired int, err error) {
	since, err := d.countedSince(ctx, d.db)
	if err != nil {
		return 0, err
	}

	start, last, err := d.bounds(ctx)
	if err != nil {
		return 0, err
	}

	first, to := start.Truncate(time.Hour), last.Truncate(time.Hour).Add(time.Hour)
	done := !since.IsZero() && since.Unix() == 0
	if done {
		first = notice.Later(first, now.Add(-recheck).Truncate(time.Hour))
	} else if !since.IsZero() {
		to = notice.Earlier(to, since)
	}

	for to.After(first) {
		from := to.Add(-1).Truncate(24 * time.Hour)
		n, err := d.recountDay(ctx, notice.Later(from, first), to)
		if repaired += n; err != nil {
			return repaired, err
		}

		if !done {
			if err := d.setCounted(ctx, from); err != nil {
				return repaired, err
			}
		}

		to = from
	}

	if done {
		return repaired, nil
	}

	return repaired, d.setCounted(ctx, time.Unix(0, 0).UTC())
}

// bounds returns the first and the last time of an entry; both are zero without entries.
func (d *DB) bounds(ctx context.Context) (first, last time.Time, err error) {
	for _, x := range []struct {
		text string
		to   *time.Time
	}{{"SELECT ended FROM history ORDER BY ended LIMIT 1", &first}, {"SELECT ended FROM history ORDER BY ended DESC LIMIT 1", &last}} {
		var at moment
		err := d.db.QueryRowContext(ctx, x.text).Scan(&at)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return first, last, err
		}

		*x.to = at.Time
	}

	return first, last, nil
}

// countedSince returns how far back the entries are counted: Unix time 0 = all of them, the zero time = those
// since the migration only.
func (d *DB) countedSince(ctx context.Context, q querier) (time.Time, error) {
	var at moment
	err := q.QueryRowContext(ctx, "SELECT since FROM history_counted").Scan(&at)
	if errors.Is(err, sql.ErrNoRows) {
		return time.Time{}, nil
	}

	return at.Time, err
}

func (d *DB) setCounted(ctx context.Context, since time.Time) error {
	_, err := d.db.ExecContext(ctx, d.marks("INSERT INTO history_counted (one, since) VALUES (1, ?) ON CONFLICT (one) DO UPDATE SET since = "+
		"excluded.since"), d.time(since))
	return err
}

// recountDay repairs the hours of a part of a day. One statement compares them, so that a concurrent write does not
// seem to be a difference.
func (d *DB) recountDay(ctx context.Context, from, to time.Time) (repaired int, err error) {
	whole := "date_trunc('hour', ended)"
	if d.sqlite {
		whole = "ended - ended % 3600000000"
	}

	rows, err := d.db.QueryContext(ctx, d.marks("SELECT hour FROM (SELECT "+whole+" AS hour, count(*) AS n FROM history WHERE ended >= ? AND "+
		"ended < ? GROUP BY 1 UNION ALL SELECT hour, -sum(n) AS n FROM history_hours WHERE hour >= ? AND hour < ? GROUP BY 1) AS compared "+
		"GROUP BY hour HAVING sum(n) <> 0 ORDER BY hour DESC"), d.time(from), d.time(to), d.time(from), d.time(to))
	if err != nil {
		return 0, err
	}

	var hours []time.Time
	for rows.Next() {
		var at moment
		if err = rows.Scan(&at); err != nil {
			break
		}

		hours = append(hours, at.Time)
	}

	if err = errors.Join(err, rows.Err(), rows.Close()); err != nil {
		return 0, err
	}

	for _, at := range hours {
		if err := d.recountHour(ctx, at); err != nil {
			return repaired, err
		}
		repaired++
	}

	return repaired, nil
}

// recountHour counts the entries of an hour again. Writes wait meanwhile.
func (d *DB) recountHour(ctx context.Context, at time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()

	tx, err := d.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}

	defer func() { _ = tx.Rollback() }() // no effect after a commit

	if err := d.lockWrites(ctx, tx); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, d.marks("DELETE FROM history_hours WHERE hour = ?"), d.time(at)); err != nil {
		return err
	}

	c := cells{}
	if err := d.countRows(ctx, tx, c, ReportQuery{Since: at, Until: at.Add(time.Hour)}); err != nil {
		return err
	}

	if err := d.addCells(ctx, tx, c); err != nil {
		return err
	}

	return tx.Commit()
}

// lockWrites has other transactions that write entries wait until the end of this one. SQLite has one writer at a time
// anyway. It checks the owner too.
func (d *DB) lockWrites(ctx context.Context, tx *sql.Tx) error {
	if !d.sqlite {
		if _, err := tx.ExecContext(ctx, "LOCK TABLE history IN SHARE ROW EXCLUSIVE MODE"); err != nil {
			return err
		}
	}
	return d.own(ctx, tx)
}

// rowsQuerier is a connection or a transaction.
type rowsQuerier interface {
	QueryContext(ctx context.Context, text string, args ...any) (*sql.Rows, error)
}

// countRows adds the entries of a window, under a prefix, to cells.
func (d *DB) countRows(ctx context.Context, q rowsQuerier, to cells, w ReportQuery) error {
	if !w.Since.Before(w.Until) {
		return nil
	}

	c := &conditions{d: d}
	c.restrict(Query{Prefix: w.Prefix, Since: w.Since, Until: w.Until})
	rows, err := q.QueryContext(ctx, "SELECT "+countedColumns+" FROM history"+c.where(), c.args...)
	if err != nil {
		return err
	}

	_, err = to.count(rows)
	return err
}

// recount repairs the counts of the hours once an hour.
func (s *Shipper) recount(ctx context.Context) {
	for wait := mathrand.N(indexWait); pace.Wait(ctx, wait); {
		wait = expireRate
		now, err := s.o.Queue.Now(ctx)
		var repaired int
		if err == nil {
			repaired, err = s.o.Writer.Recount(ctx, now)
		}

		if repaired > 0 {
			s.o.Logger.Info("counted the entries of the history for reports", zap.Int("hours", repaired))
		}

		if err != nil && ctx.Err() == nil {
			wait = indexRetry
			s.o.Logger.Debug("cannot count the entries of the history, retrying", zap.Error(err))
		}
	}
}
