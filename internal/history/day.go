package history

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"
)

// Partitions of PostgreSQL. Each holds the entries of one day in UTC and is named after that day.

const (
	dayName = "history_p20060102"
	// dayLock is the advisory lock for creating and dropping partitions.
	dayLock = 0x6e6f746966794844
)

// makeDays creates the PostgreSQL partitions that the rows need: one for each day on which a notice was finalized.
// During the last hour before midnight UTC it also creates the partition of the next day.
func (d *DB) makeDays(ctx context.Context, rows []Row) error {
	if d.sqlite || len(rows) == 0 {
		return nil
	}

	need := map[string]time.Time{}
	for i := range rows {
		day := rows[i].Ended.UTC().Truncate(24 * time.Hour)
		need[day.Format(dayName)] = day
	}

	d.mu.Lock()
	for name, day := range need {
		if next := day.AddDate(0, 0, 1); d.days[name] && !d.days[next.Format(dayName)] && time.Until(next) < time.Hour {
			need[next.Format(dayName)] = next
		}
	}

	for name := range need {
		if d.days[name] {
			delete(need, name)
		}
	}

	d.mu.Unlock()
	for name, day := range need {
		if err := d.makeDay(ctx, name, day); err != nil {
			return err
		}

		d.mu.Lock()
		d.days[name] = true
		d.mu.Unlock()
	}

	return nil
}

// forgetDays makes the next write check again which partitions exist.
func (d *DB) forgetDays() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.days = map[string]bool{}
}

func (d *DB) makeDay(ctx context.Context, name string, day time.Time) error {
	return d.alone(ctx, func(tx *sql.Tx) error {
		var there bool
		err := tx.QueryRowContext(ctx,
			"SELECT EXISTS (SELECT 1 FROM pg_inherits WHERE inhparent = 'history'::regclass AND inhrelid = to_regclass($1))", name).Scan(&there)
		if err != nil || there {
			return err
		}

		return attachDay(ctx, tx, name, day)
	})
}

// alone runs f under an advisory lock, so that no other instance does the same work at the same time.
func (d *DB) alone(ctx context.Context, do func(tx *sql.Tx) error) error {
	tx, err := d.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}

	defer func() { _ = tx.Rollback() }() // no effect after a commit

	if _, err := tx.ExecContext(ctx, fmt.Sprintf("SET LOCAL lock_timeout = %d", ddlTimeout.Milliseconds())); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "SELECT pg_advisory_xact_lock($1)", int64(dayLock)); err != nil {
		return err
	}
	if err := do(tx); err != nil {
		return err
	}

	return tx.Commit()
}

// sqliteStep is how many rows SQLite deletes in one statement, so that other writes can run between
// statements.
const sqliteStep = 5000

// clocksApart is how far the database's clock and Redis's may differ while old data is deleted.
const clocksApart = 5 * time.Minute

// Expire deletes entries older than the retention with their data keys, and replays that have not changed for 30 days. now is the time of
// Redis's clock. Of Redis's and the database's clock, the one that is behind decides. The error wraps ErrClocks, and
// nothing is deleted, if they differ by more than five minutes. Expire returns the number of deleted partitions
// (PostgreSQL) or rows (SQLite). All instances may call it.
func (d *DB) Expire(ctx context.Context, now time.Time) (gone int64, err error) {
	if err := d.Begin(ctx); err != nil {
		return 0, err
	}

	if now, err = d.agreed(ctx, now); err != nil {
		return 0, err
	}
	if err := d.expireReplays(ctx, now); err != nil || d.o.Retention <= 0 {
		return 0, err
	}

	before := now.Add(-d.o.Retention)
	if d.sqlite {
		if gone, err = d.deleteRows(ctx, before); err == nil {
			err = d.expireBeside(ctx, before, time.Hour)
		}
		return gone, err
	}

	names, err := d.partitions(ctx)
	if err != nil {
		return 0, d.wrap("expire", err)
	}

	for _, name := range names {
		day, err := time.Parse(dayName, name)
		if err != nil || !day.AddDate(0, 0, 1).Before(before) {
			continue
		}

		err = d.alone(ctx, func(tx *sql.Tx) error {
			// Without IF EXISTS it would fail after another instance has dropped it.
			_, err := tx.ExecContext(ctx, "DROP TABLE IF EXISTS "+name)
			return err
		})
		if err != nil {
			return gone, d.wrap("expire", err)
		}

		gone++
		d.forgetDays()
	}

	return gone, d.expireBeside(ctx, before, 24*time.Hour)
}

// expireBeside deletes the counts of hours and the data keys whose entries have expired. Entries are deleted in steps of a time.
func (d *DB) expireBeside(ctx context.Context, before time.Time, step time.Duration) error {
	if err := d.run(ctx, "DELETE FROM history_hours WHERE hour < ?", d.time(before.Truncate(step))); err != nil {
		return err
	}
	return d.expireKeys(ctx, before)
}

// agreed returns the earlier one of Redis's time and the database's. SQLite has the clock of this machine.
func (d *DB) agreed(ctx context.Context, redis time.Time) (time.Time, error) {
	var here moment
	if err := d.db.QueryRowContext(ctx, "SELECT "+d.clock(0)).Scan(&here); err != nil {
		return redis, d.wrap("expire", err)
	}

	ahead := here.Sub(redis)
	if ahead.Abs() > clocksApart {
		return redis, fmt.Errorf("%w: the clock of the history's database is %s ahead of Redis's", ErrClocks, ahead.Round(time.Second))
	}

	return redis.Add(min(ahead, 0)), nil
}

// deleteRows deletes SQLite's rows from before a time.
func (d *DB) deleteRows(ctx context.Context, before time.Time) (gone int64, err error) {
	for {
		res, err := d.db.ExecContext(ctx, "DELETE FROM history WHERE rowid IN (SELECT rowid FROM history WHERE ended < ? LIMIT ?)",
			before.UnixMicro(), sqliteStep)
		if err != nil {
			return gone, d.wrap("expire", err)
		}

		n, err := res.RowsAffected()
		if gone += n; err != nil || n < sqliteStep {
			return gone, d.wrap("expire", err)
		}
	}
}

// partitions returns the names of all partitions.
func (d *DB) partitions(ctx context.Context) ([]string, error) {
	rows, err := d.db.QueryContext(ctx, "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'history'::regclass ORDER BY 1")
	if err != nil {
		return nil, err
	}

	defer rows.Close()

	var names []string

	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, err
		}

		names = append(names, unqualified(name))
	}

	return names, rows.Err()
}

// unqualified returns the name of a table or index without its schema.
func unqualified(name string) string { return name[strings.LastIndexByte(name, '.')+1:] }
