package history

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// indexLock is the advisory lock of the instance that builds indexes.
const indexLock = 0x6e6f746966794958

var errBuilding = errors.New("another instance builds the indexes")

// idIndex is the index by webhook-id.
const idIndex = "history_id"

// BuildIndexes builds the webhook-id index on each PostgreSQL partition (one day of rows) that lacks it, and returns
// the number of indexes built. Reads and writes continue during the build. If another instance is building them,
// BuildIndexes returns an error at once. For SQLite it does nothing.
func (d *DB) BuildIndexes(ctx context.Context) (built int, err error) {
	if d.sqlite {
		return 0, nil
	}
	if err := d.Begin(ctx); err != nil {
		return 0, err
	}

	c, err := d.db.Conn(ctx)
	if err != nil {
		return 0, d.wrap("index", err)
	}

	defer func() { _ = c.Close() }() // returns the connection to the pool

	var first bool
	if err := c.QueryRowContext(ctx, "SELECT pg_try_advisory_lock($1)", int64(indexLock)).Scan(&first); err != nil {
		return 0, d.wrap("index", err)
	}
	if !first {
		return 0, errBuilding
	}

	defer func() {
		_, _ = c.ExecContext(context.WithoutCancel(ctx), "SELECT pg_advisory_unlock($1)", int64(indexLock)) // a lost connection has none
	}()
	names, err := d.unindexed(ctx, c)

	for _, name := range names {
		if err = buildIndex(ctx, c, name); err != nil {
			break
		}
		built++
	}

	return built, d.wrap("index", err)
}

// unindexed returns the partitions without the index by webhook-id.
func (d *DB) unindexed(ctx context.Context, c *sql.Conn) (names []string, err error) {
	rows, err := c.QueryContext(ctx, `SELECT p.inhrelid::regclass::text FROM pg_inherits p WHERE p.inhparent = 'history'::regclass
		AND NOT EXISTS (SELECT 1 FROM pg_index i JOIN pg_inherits x ON x.inhrelid = i.indexrelid
			WHERE i.indrelid = p.inhrelid AND i.indisvalid AND x.inhparent = '`+idIndex+`'::regclass) ORDER BY 1 DESC`)
	if err != nil {
		return nil, err
	}

	defer rows.Close()

	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, err
		}

		names = append(names, name)
	}

	return names, rows.Err()
}

// buildIndex builds the index of one partition. The invalid rest of an interrupted build is dropped first: it
// is never used.
func buildIndex(ctx context.Context, c *sql.Conn, partition string) error {
	index := partition + "_id"
	for _, text := range []string{
		fmt.Sprintf("SET lock_timeout = %d", 10*ddlTimeout.Milliseconds()), // CONCURRENTLY waits for older transactions
		"DROP INDEX CONCURRENTLY IF EXISTS " + index,
		fmt.Sprintf("CREATE INDEX CONCURRENTLY %s ON %s (id, ended)", unqualified(index), partition),
		fmt.Sprintf("ALTER INDEX %s ATTACH PARTITION %s", idIndex, index),
		"RESET lock_timeout",
	} {
		if _, err := c.ExecContext(ctx, text); err != nil {
			_, _ = c.ExecContext(context.WithoutCancel(ctx), "RESET lock_timeout") // a lost connection has none
			return err
		}
	}

	return nil
}
