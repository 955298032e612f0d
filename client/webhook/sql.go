package webhook

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"
)

// SQL is a [Store] in a database. The handler works in the transaction that stores the key, which it gets from [Tx]: both are committed,
// or neither. Create the table first, and delete rows that are older than the sender retries, redrives and replays:
//
//	CREATE TABLE webhook_events (id varchar(255) PRIMARY KEY, at bigint NOT NULL)
//	DELETE FROM webhook_events WHERE at < 1795262400
type SQL struct {
	// DB is the database. Begin takes one of its connections for the time of the handler.
	DB *sql.DB
	// Insert adds a row with a key and the present Unix time unless there is one. Empty means that of PostgreSQL and SQLite; MySQL
	// needs INSERT IGNORE INTO webhook_events (id, at) VALUES (?, ?).
	Insert string
	// Wait is how long Begin waits for another process that is processing the same callback. Then the state is StateRunning. Zero
	// means a second.
	Wait time.Duration

	running sync.Map // keys of this process, so that its own callbacks do not wait
}

const insertEvent = "INSERT INTO webhook_events (id, at) VALUES ($1, $2) ON CONFLICT (id) DO NOTHING"

type txKey struct{}

// Tx returns the transaction of a handler's context; nil if the store is not [SQL]. The handler neither commits it nor rolls it back.
func Tx(ctx context.Context) *sql.Tx {
	tx, _ := ctx.Value(txKey{}).(*sql.Tx)
	return tx
}

// Begin implements [Store].
func (s *SQL) Begin(ctx context.Context, key string) (context.Context, State, error) {
	if _, running := s.running.LoadOrStore(key, true); running {
		return ctx, StateRunning, nil
	}

	tx, state, err := s.insert(ctx, key)
	if err != nil || state != StateNew {
		s.running.Delete(key)
		return ctx, state, err
	}

	return context.WithValue(ctx, txKey{}, tx), StateNew, nil
}

// insert returns a transaction that has added the key, or the state of the callback that has it.
func (s *SQL) insert(ctx context.Context, key string) (*sql.Tx, State, error) {
	tx, err := s.DB.BeginTx(ctx, nil)
	if err != nil {
		return nil, 0, fmt.Errorf("begin a transaction: %w", err)
	}

	added, err := s.add(ctx, tx, key)
	if err == nil && added {
		return tx, StateNew, nil
	}

	_ = tx.Rollback()
	switch {
	case err == nil:
		return nil, StateDone, nil
	case errors.Is(err, errWaited):
		return nil, StateRunning, nil
	}

	return nil, 0, err
}

// errWaited: another transaction has added the key, and has neither committed nor rolled back in time.
var errWaited = errors.New("another transaction has the key")

// add reports whether it added the key.
func (s *SQL) add(ctx context.Context, tx *sql.Tx, key string) (bool, error) {
	query, wait := s.Insert, s.Wait
	if query == "" {
		query = insertEvent
	}

	if wait == 0 {
		wait = time.Second
	}

	limited, cancel := context.WithTimeout(ctx, wait)
	defer cancel()

	result, err := tx.ExecContext(limited, query, key, time.Now().Unix())
	switch {
	case err != nil && limited.Err() != nil && ctx.Err() == nil:
		return false, errWaited
	case err != nil:
		return false, fmt.Errorf("add the key: %w", err)
	}

	rows, err := result.RowsAffected()
	if err != nil {
		return false, fmt.Errorf("count the rows: %w", err)
	}

	return rows == 1, nil
}

// Done implements [Store]. It commits the transaction.
func (s *SQL) Done(ctx context.Context, key string) error {
	defer s.running.Delete(key)
	return Tx(ctx).Commit()
}

// Forget implements [Store]. It rolls the transaction back.
func (s *SQL) Forget(ctx context.Context, key string) error {
	defer s.running.Delete(key)
	if err := Tx(ctx).Rollback(); !errors.Is(err, sql.ErrTxDone) { // the end of the request has rolled it back
		return err
	}

	return nil
}
