package history

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"notifier/internal/notice"
)

// Erasure says what is to be forgotten: all that ended under a key, or that a
// host was called for. One of the two is set.
type Erasure struct{ Key, Host string }

// String tells of an erasure without what is erased.
func (x Erasure) String() string {
	kind := "host"
	if x.Key != "" {
		kind = "key"
	}
	return fmt.Sprintf("%s of SHA-256 %.6x…", kind, x.digest())
}

// Erased answers an erasure.
type Erased struct {
	Rows    int64 // of the database
	Redis   int   // settled notices and dead letters that Redis still kept
	Pending int   // of a key: a notice that has not ended, which stays
}

// digest is what an erasure is kept as.
func (x Erasure) digest() []byte {
	if x.Key != "" {
		return []byte(digest("key", x.Key))
	}
	return []byte(digest("host", x.Host))
}

// Refuse lets no row in any more of what ended until an instant, by whatever way
// it comes; what ends later is kept. It comes before Erase.
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

// eraseTimeout is how long the deletion of rows may take.
const eraseTimeout = 5 * time.Minute

// Erase deletes the rows of what ended until an instant, and says how many. It
// waits for writes that began before what Refuse has written could be seen.
func (d *DB) Erase(ctx context.Context, x Erasure, until time.Time) (rows int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, eraseTimeout)
	defer cancel()
	if rows, err = d.erase(ctx, x, until); err == nil && d.sqlite {
		err = d.emptyLog(ctx)
	}
	return rows, d.wrap("erase", err)
}

// logEmptying lets erasures share the emptying of SQLite's log: SQLite refuses a second one
// at the same time at once, without waiting.
type logEmptying struct {
	begun atomic.Int64 // the number of the last one
	mu    sync.Mutex
	done  int64 // the number of the last one that succeeded
}

// emptyLog empties SQLite's log of writes, which has what was erased as it was
// written. It waits for searches that read from it.
func (d *DB) emptyLog(ctx context.Context) error {
	e := &d.emptying
	before := e.begun.Load()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.done > before { // it began after the caller's rows were deleted
		return nil
	}
	this := e.begun.Add(1)
	if err := d.truncateLog(ctx); err != nil {
		return err
	}
	e.done = this
	return nil
}

func (d *DB) truncateLog(ctx context.Context) error {
	var busy, pages, moved int
	if err := d.db.QueryRowContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &pages, &moved); err != nil {
		return err
	}
	if busy != 0 {
		return fmt.Errorf("the rows are gone, but not from %s-wal, from which another process has read for more than %s: erase once more", d.file,
			notice.Short(busyTimeout))
	}
	return nil
}

func (d *DB) erase(ctx context.Context, x Erasure, until time.Time) (int64, error) {
	tx, err := d.db.BeginTx(ctx, nil)
	if err != nil {
		return 0, err
	}
	defer func() { _ = tx.Rollback() }() // after a commit it does nothing
	if !d.sqlite {                       // which lets one write at a time anyway
		if _, err := tx.ExecContext(ctx, "LOCK TABLE history IN SHARE ROW EXCLUSIVE MODE"); err != nil {
			return 0, err
		}
	}
	if err := d.own(ctx, tx); err != nil {
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
	var res sql.Result
	if res, err = tx.ExecContext(ctx, "DELETE FROM history WHERE "+c.all[0]+" AND "+c.all[1], c.args...); err != nil {
		return 0, err
	}
	n, err := res.RowsAffected()
	if err != nil {
		return 0, err
	}
	return n, tx.Commit()
}
