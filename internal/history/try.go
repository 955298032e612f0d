package history

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"notifier/internal/notice"
)

// probeDay is the day of the row that Try writes. No notice has that day.
var probeDay = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

// Try reports whether the database accepts the writes of an instance: a table, a partition and a row. It
// rolls all of them back. A lock of another process is not a failure.
func (d *DB) Try(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()

	missing, err := d.missingFile()
	if missing || err != nil {
		return err
	}

	version, err := d.Version(ctx)
	if err != nil || version > Newest {
		return err
	}

	err = d.try(ctx, version == Newest)
	if d.driver.Fault(err) == Locked {
		return nil
	}

	return d.wrap("try to write", err)
}

// missingFile reports whether the file of SQLite does not exist yet. err is why it cannot be created.
func (d *DB) missingFile() (missing bool, err error) {
	if !d.sqlite {
		return false, nil
	}
	if _, err := os.Stat(d.file); !errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}

	probe, err := os.CreateTemp(filepath.Dir(d.file), ".notifier-probe-*")
	if err != nil {
		return true, fmt.Errorf("%w: the file cannot be created: %w", ErrUnavailable, err)
	}

	return true, errors.Join(probe.Close(), os.Remove(probe.Name()))
}

func (d *DB) try(ctx context.Context, complete bool) error {
	tx, err := d.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}

	defer func() { _ = tx.Rollback() }() // always

	if !d.sqlite {
		if _, err := tx.ExecContext(ctx, fmt.Sprintf("SET LOCAL lock_timeout = %d", ddlTimeout.Milliseconds())); err != nil {
			return err
		}
	}

	if !complete { // the next start creates the tables
		_, err := tx.ExecContext(ctx, "CREATE TABLE history_probe (n integer)")
		return err
	}

	rows := []Row{{Notice: &notice.Notice{Key: "notifier:doctor:probe:1", Due: probeDay}, Outcome: notice.EndDelivered, Number: 1,
		Ended: probeDay}}
	if d.sqlite {
		_, err = d.insertSQLite(ctx, tx, rows)
	} else if err = attachDay(ctx, tx, probeDay.Format(dayName), probeDay); err == nil {
		_, err = d.insertPostgres(ctx, tx, rows)
	}

	if err != nil {
		return err
	}

	if err := d.addHours(ctx, tx, rows); err != nil {
		return err
	}

	return d.putSeal(ctx, tx, "probe", "", 0)
}

// attachDay creates the partition of a day.
func attachDay(ctx context.Context, tx *sql.Tx, name string, day time.Time) error {
	_, err := tx.ExecContext(ctx, fmt.Sprintf(`CREATE TABLE %s (LIKE history INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING INDEXES);
		ALTER TABLE history ATTACH PARTITION %s FOR VALUES FROM ('%s+00') TO ('%s+00')`, name, name,
		day.Format(time.DateTime), day.AddDate(0, 0, 1).Format(time.DateTime)))
	return err
}
