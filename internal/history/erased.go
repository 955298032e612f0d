package history

import (
	"context"
	"database/sql"
	"slices"
	"strings"
	"time"
)

// An erasure deletes all finalized notices of a key or host. While its record, a digest and a time, is stored, entries
// of that key or host that were finalized until then are not written to the database any more. Such entries may still
// be in an outbox, the list in Redis from which entries are moved to the database. Each Redis publishes how far its
// outboxes have been moved, so that old records can be deleted.

// Unrefuse deletes the record of an erasure that found nothing to erase, so that it does not stay in the database. The
// caller must have checked that the outboxes of its Redis, home, are empty. until is the time of the erasure. The
// record is kept while another Redis may still move entries finalized before until.
func (d *DB) Unrefuse(ctx context.Context, x Erasure, until time.Time, home string) error {
	// A record with a later time is of a newer erasure.
	return d.run(ctx, `DELETE FROM history_erased WHERE digest = ? AND at <= ?
		AND NOT EXISTS (SELECT 1 FROM history_outboxes WHERE home <> ? AND passed < ?)`, x.digest(), d.time(until), home, d.time(until))
}

// PassOutbox records that a Redis has handed over all notices that ended there until an
// instant.
func (d *DB) PassOutbox(ctx context.Context, home string, until time.Time) error {
	if owned, err := d.begin(ctx); err != nil || !owned {
		return err
	}
	return d.run(ctx, "INSERT INTO history_outboxes (home, passed) VALUES (?, ?) ON CONFLICT (home) DO UPDATE SET passed = excluded.passed",
		home, d.time(until.Add(-clockSlack)))
}

// LeaveOutbox records that a Redis hands over nothing any more.
func (d *DB) LeaveOutbox(ctx context.Context, home string) error {
	if err := d.Begin(ctx); err != nil {
		return err
	}
	return d.run(ctx, "DELETE FROM history_outboxes WHERE home = ?", home)
}

// ForgetErasures drops the records of erasures that all outboxes have passed.
func (d *DB) ForgetErasures(ctx context.Context) error {
	if err := d.Begin(ctx); err != nil {
		return err
	}
	return d.run(ctx, "DELETE FROM history_erased WHERE at < (SELECT min(passed) FROM history_outboxes)")
}

// unerased leaves out the rows that an erasure has refused.
func (d *DB) unerased(ctx context.Context, tx *sql.Tx, rows []Row, w *Written) ([]Row, error) {
	var any bool
	if err := tx.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM history_erased)").Scan(&any); err != nil || !any {
		return rows, err
	}

	until := map[string]time.Time{}
	for _, some := range digestsOf(rows) {
		if err := d.readErased(ctx, tx, some, until); err != nil {
			return nil, err
		}
	}

	kept := slices.DeleteFunc(slices.Clone(rows), func(r Row) bool {
		for _, digest := range []string{digest("key", r.Key), digest("host", r.Host)} {
			if at, ok := until[digest]; ok && !r.Ended.After(at) {
				return true
			}
		}
		return false
	})
	w.Erased = len(rows) - len(kept)
	return kept, nil
}

// digestsAtOnce is how many digests one statement looks up.
const digestsAtOnce = 500

// digestsOf are the digests of the keys and hosts of rows, some at a time.
func digestsOf(rows []Row) [][]any {
	seen := map[string]bool{}
	for i := range rows {
		seen[digest("key", rows[i].Key)] = true
		seen[digest("host", rows[i].Host)] = true
	}

	list := make([]any, 0, len(seen))
	for text := range seen {
		list = append(list, []byte(text))
	}

	return slices.Collect(slices.Chunk(list, digestsAtOnce))
}

func (d *DB) readErased(ctx context.Context, tx *sql.Tx, digests []any, until map[string]time.Time) error {
	list, err := tx.QueryContext(ctx, d.marks("SELECT digest, at FROM history_erased WHERE digest IN (?"+strings.Repeat(", ?", len(digests)-1)+
		")"), digests...)
	if err != nil {
		return err
	}

	defer list.Close()

	for list.Next() {
		var digest []byte
		var at moment
		if err := list.Scan(&digest, &at); err != nil {
			return err
		}

		until[string(digest)] = at.Time
	}

	return list.Err()
}
