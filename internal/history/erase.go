package history

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"notifier/internal/notice"
)

// Erasure selects the entries to delete: those of a key, or those that a host was called for. One of the two
// is set.
type Erasure struct{ Key, Host string }

// String describes an erasure without the key or host.
func (x Erasure) String() string {
	kind := "host"
	if x.Key != "" {
		kind = "key"
	}

	return fmt.Sprintf("%s of SHA-256 %.6x…", kind, x.digest())
}

// Erased is the result of an erasure.
type Erased struct {
	Rows    int64 // of the database
	Redis   int   // settled notices and dead letters that were still in Redis
	Pending int   // a pending notice of the key, which stays
}

// digest returns the text by which an erasure is stored.
func (x Erasure) digest() []byte {
	if x.Key != "" {
		return []byte(digest("key", x.Key))
	}
	return []byte(digest("host", x.Host))
}

// Refuse records an erasure, so that entries that ended until an instant are not written any more, whatever
// instance has them. Later entries are kept. It is called before Erase.
func (d *DB) Refuse(ctx context.Context, x Erasure, until time.Time) error {
	if err := d.Begin(ctx); err != nil {
		return err
	}

	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()

	text := "INSERT INTO history_erased (digest, at) VALUES ($1, $2) ON CONFLICT (digest) DO UPDATE SET at = greatest(history_erased.at, " +
		"excluded.at)"
	if d.sqlite {
		text = "INSERT INTO history_erased (digest, at) VALUES (?, ?) ON CONFLICT (digest) DO UPDATE SET at = max(at, excluded.at)"
	}

	_, err := d.db.ExecContext(ctx, text, x.digest(), d.time(until))
	return d.wrap("erase", err)
}

// eraseTimeout is the time limit for the deletion of rows.
const eraseTimeout = 5 * time.Minute

// Erase deletes the rows that ended until an instant, and returns how many. It waits for writes that began
// before the record of Refuse was visible.
func (d *DB) Erase(ctx context.Context, x Erasure, until time.Time) (rows int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, eraseTimeout)
	defer cancel()
	if rows, err = d.erase(ctx, x, until); err == nil && d.sqlite {
		err = d.clean(ctx)
	}

	return rows, d.wrap("erase", err)
}

// cleaning lets concurrent erasures share one cleaning of SQLite's files. SQLite refuses to empty its log twice at the
// same time, without waiting.
type cleaning struct {
	begun atomic.Int64 // number of the last one that began
	mu    sync.Mutex
	done  int64 // number of the last one that succeeded
}

// clean removes what is left of deleted rows: copies in the pages of SQLite's file, and its write-ahead log. It waits for
// searches that read from the log.
func (d *DB) clean(ctx context.Context) error {
	c := &d.cleaning
	before := c.begun.Load()
	c.mu.Lock()
	defer c.mu.Unlock()

	if c.done > before { // that one began after the caller's rows were deleted
		return nil
	}

	this := c.begun.Add(1)
	if err := d.overwriteCopies(ctx); err != nil {
		return err
	}

	if err := d.truncateLog(ctx); err != nil {
		return err
	}

	c.done = this
	return nil
}

func (d *DB) truncateLog(ctx context.Context) error {
	var busy, pages, moved int
	if err := d.db.QueryRowContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &pages, &moved); err != nil {
		return err
	}

	if busy != 0 {
		return fmt.Errorf("the rows are gone, but not from %s-wal, from which another process has read for more than %s: erase once more", d.file,
			notice.Short(BusyTimeout))
	}

	return nil
}

func (d *DB) erase(ctx context.Context, x Erasure, until time.Time) (int64, error) {
	tx, err := d.db.BeginTx(ctx, nil)
	if err != nil {
		return 0, err
	}

	defer func() { _ = tx.Rollback() }() // no effect after a commit

	if err := d.lockWrites(ctx, tx); err != nil {
		return 0, err
	}

	c := &conditions{d: d}
	if x.Key != "" {
		k := parts(x.Key)
		c.add("app = "+at+" AND module = "+at+" AND type = "+at+" AND name = "+at, k.App, k.Module, k.Type, k.ID)
	} else {
		c.add("host = "+at, x.Host)
	}

	c.add("ended <= "+at, d.time(until))
	if err := d.eraseItems(ctx, tx, x, until); err != nil {
		return 0, err
	}

	rows, err := tx.QueryContext(ctx, "DELETE FROM history WHERE "+c.all[0]+" AND "+c.all[1]+" RETURNING "+countedColumns, c.args...)
	if err != nil {
		return 0, err
	}

	erased := cells{}
	n, err := erased.count(rows)
	if err != nil {
		return 0, err
	}

	if err := d.takeCells(ctx, tx, erased); err != nil {
		return 0, err
	}

	return n, tx.Commit()
}
