package history

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"
)

// The partitions of PostgreSQL. Each holds what ended on one day of UTC and is
// named after it.

const (
	dayName = "history_p20060102"
	// dayLock is the advisory lock of whoever makes or drops partitions.
	dayLock = 0x6e6f746966794844
)

// makeDays makes the partitions that rows need, and that of the day after the
// latest. A partition is made apart and then attached: that waits for no search
// that is under way, as making it in its place would, and every write behind it.
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

// forgetDays lets the next write look again which partitions are there.
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

// alone does something that no other instance may do at the same time.
func (d *DB) alone(ctx context.Context, do func(tx *sql.Tx) error) error {
	tx, err := d.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after a commit it does nothing
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

// sqliteStep is how many rows SQLite deletes at a time: others write meanwhile.
const sqliteStep = 5000

// Expire drops what ended before the retention, and says what went: partitions
// of PostgreSQL, rows of SQLite. It may be called by all instances.
func (d *DB) Expire(ctx context.Context, now time.Time) (gone int64, err error) {
	if d.o.Retention <= 0 {
		return 0, nil
	}
	if err := d.Begin(ctx); err != nil {
		return 0, err
	}
	before := now.Add(-d.o.Retention)
	if d.sqlite {
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
			// Without IF EXISTS it would fail where another was first.
			_, err := tx.ExecContext(ctx, "DROP TABLE IF EXISTS "+name)
			return err
		})
		if err != nil {
			return gone, d.wrap("expire", err)
		}
		gone++
		d.forgetDays()
	}
	return gone, nil
}

// partitions are the names of all days there are.
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

// unqualified is the name of a table or index without its schema.
func unqualified(name string) string { return name[strings.LastIndexByte(name, '.')+1:] }
