package history

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// Owner identifies the service whose notices a history holds. Two services may use the same namespace on two
// Redis servers, or two namespaces on one, so both parts count.
type Owner struct {
	Namespace string
	ID        string // the data identity: see store.Store.Identity
}

// Serve sets the service that the history must belong to. Each operation calls owner,
// because another Redis may answer. Without Serve the owner is not checked.
func (d *DB) Serve(owner func(ctx context.Context) (Owner, error)) { d.owner.Store(&owner) }

// FollowLost has the history follow the service when Redis has lost its data: if lost returns true for the identity of the
// owner, or MarkLost has recorded its loss, the service becomes the owner, as by Claim, and claimed is called.
func (d *DB) FollowLost(lost func(id string) bool, claimed func(from string)) {
	d.follow.Store(&following{lost, claimed})
}

type following struct {
	lost    func(id string) bool
	claimed func(from string)
}

// MarkLost records that Redis lost the data with the identity was, and has those with the identity now instead. So the
// history also follows a service whose instances have all restarted since. If now is the owner, its data have returned,
// and its mark is removed. Another owner's mark does not change.
func (d *DB) MarkLost(ctx context.Context, namespace, was, now string) error {
	if err := d.upgrade(ctx); err != nil {
		return err
	}

	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()

	_, err := d.db.ExecContext(ctx, d.marks("UPDATE history_owner SET replaced_by = CASE WHEN id = ? THEN '' ELSE ? END "+
		"WHERE namespace = ? AND (id IN (?, ?) OR replaced_by = ?)"), now, now, namespace, was, now, was)
	return d.wrap("mark the owner", err)
}

// isLost reports whether the data of the owner has were lost, and mine has replaced them.
func (d *DB) isLost(ctx context.Context, has, mine Owner) (lost bool, err error) {
	text := d.marks("SELECT EXISTS (SELECT 1 FROM history_owner WHERE namespace = ? AND id = ? AND replaced_by = ?)")
	err = d.lookups.QueryRowContext(ctx, text, has.Namespace, has.ID, mine.ID).Scan(&lost)
	return lost, err
}

// checkOwner returns ErrForeign if the history belongs to another service. owned is false
// if it has no owner yet.
func (d *DB) checkOwner(ctx context.Context) (owned bool, err error) {
	owner := d.owner.Load()
	if owner == nil {
		return true, nil
	}

	mine, err := (*owner)(ctx)
	if err != nil {
		return false, fmt.Errorf("history: read the data identity: %w", err)
	}

	d.mine.Store(&mine)

	ctx, cancel := context.WithTimeout(ctx, DialTimeout)
	defer cancel()

	has, owned, err := d.readOwner(ctx, d.lookups)
	if err != nil || !owned {
		return false, d.wrap("owner", err)
	}

	f := d.follow.Load()
	if f == nil || has == mine || has.Namespace != mine.Namespace {
		return true, mine.differs(has)
	}

	lost := f.lost(has.ID)
	if !lost {
		lost, err = d.isLost(ctx, has, mine)
	}

	if err != nil || !lost {
		return err == nil, cmp.Or(d.wrap("owner", err), mine.differs(has))
	}

	changed, err := d.claim(ctx, has.ID, mine)
	if changed {
		f.claimed(has.ID)
	}

	return true, d.wrap("claim", err)
}

const insertOwner = "INSERT INTO history_owner (one, namespace, id, since) VALUES (1, ?, ?, "

// own is checkOwner within a writing transaction, so that a claim waits for the transaction. The first writer
// becomes the owner of a history without one.
func (d *DB) own(ctx context.Context, tx *sql.Tx) error {
	mine := d.mine.Load()
	if mine == nil {
		return nil
	}

	has, owned, err := d.readOwner(ctx, tx)
	if err == nil && !owned {
		if _, err = tx.ExecContext(ctx, d.marks(insertOwner+d.clock(0)+") ON CONFLICT DO NOTHING"), mine.Namespace, mine.ID); err == nil {
			has, _, err = d.readOwner(ctx, tx)
		}
	}

	if err != nil {
		return err
	}

	return mine.differs(has)
}

func (o Owner) differs(has Owner) error {
	if has == o {
		return nil
	}
	return fmt.Errorf("%w: it belongs to namespace %q with the data identity %s, and this service is namespace %q with %s; "+
		"give this service a separate database or schema in NOTIFIER_HISTORY_URL; if its data replaced the other data: notifier history "+
		"claim --from %s",
		ErrForeign, has.Namespace, has.ID, o.Namespace, o.ID, has.ID)
}

type querier interface {
	QueryRowContext(ctx context.Context, text string, args ...any) *sql.Row
}

func (d *DB) readOwner(ctx context.Context, q querier) (has Owner, ok bool, err error) {
	text := "SELECT namespace, id FROM history_owner"
	if _, inTx := q.(*sql.Tx); inTx && !d.sqlite {
		text += " FOR SHARE"
	}

	err = q.QueryRowContext(ctx, text).Scan(&has.Namespace, &has.ID)
	if errors.Is(err, sql.ErrNoRows) {
		return Owner{}, false, nil
	}

	return has, err == nil, err
}

// Owner returns the owner of this history; ok is false if nothing was written yet. It changes nothing.
func (d *DB) Owner(ctx context.Context) (has Owner, ok bool, err error) {
	if v, err := d.Version(ctx); err != nil || v < ownerVersion {
		return Owner{}, false, err
	}

	ctx, cancel := context.WithTimeout(ctx, DialTimeout)
	defer cancel()

	has, ok, err = d.readOwner(ctx, d.db)
	return has, ok, d.wrap("owner", err)
}

// ownerVersion is the first version of the schema with an owner.
const ownerVersion = 3

// claimed is the reason of replays that a claim has ended.
const claimed = "the history was claimed for other data, which has no progress of this replay"

// Claim makes another Redis or namespace the owner of the history, for example after notices were moved to a new Redis.
// changed is false if to is the owner already. Otherwise from must be the ID of the present owner, or the error wraps
// ErrForeign. Unfinished replays, which deliver notices of the history again, end as failed.
func (d *DB) Claim(ctx context.Context, from string, to Owner) (changed bool, err error) {
	if err := d.upgrade(ctx); err != nil {
		return false, err
	}

	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()

	changed, err = d.claim(ctx, from, to)
	return changed, d.wrap("claim", err)
}

func (d *DB) claim(ctx context.Context, from string, to Owner) (changed bool, err error) {
	tx, err := d.db.BeginTx(ctx, nil)
	if err != nil {
		return false, err
	}

	defer func() { _ = tx.Rollback() }() // no effect after a commit

	has, ok, err := d.readOwner(ctx, tx)

	switch {
	case err != nil || has == to:
		return false, err
	case !ok:
		return false, fmt.Errorf("%w: the history has no owner yet; the first instance that writes becomes the owner, without a claim",
			ErrForeign)
	case has.ID != from:
		return false, to.differs(has)
	}

	steps := []struct {
		text string
		args []any
	}{
		{"UPDATE history_owner SET namespace = ?, id = ?, replaced_by = '', since = " + d.clock(0), []any{to.Namespace, to.ID}},
		{"UPDATE history_replays SET state = 'failed', reason = ?, driver = '', changed = " + d.clock(0) +
			" WHERE state IN ('running', 'stopped')", []any{claimed}},
		{"DELETE FROM history_replay_items", nil},
		{"DELETE FROM history_outboxes", nil}, // outboxes of the old data
	}
	for _, s := range steps {
		if _, err := tx.ExecContext(ctx, d.marks(s.text), s.args...); err != nil {
			return false, err
		}
	}

	return true, tx.Commit()
}
