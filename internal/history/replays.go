package history

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// replayKept is how long a replay is stored after its last change.
const replayKept = 30 * 24 * time.Hour

const replayColumns = "id, name, state, reason, client, prefix, host, about, total, done, counts, made, changed"

func scanReplay(scan func(...any) error) (Replay, error) {
	var r Replay
	var about, counts string
	var made, changed moment
	if err := scan(&r.ID, &r.Name, &r.State, &r.Reason, &r.Client, &r.Prefix, &r.Host, &about, &r.Total, &r.Done, &counts, &made,
		&changed); err != nil {
		return Replay{}, err
	}

	r.Name = cmp.Or(r.Name, r.ID)
	r.Made, r.Changed = made.Time, changed.Time
	if json.Unmarshal([]byte(about), &r.ReplayAbout) != nil || json.Unmarshal([]byte(counts), &r.Counts) != nil {
		// One such row must not hide the others. Its shards are 0, so it is never driven.
		r.ReplayAbout, r.Counts, r.Reason = ReplayAbout{}, nil, "its row in the history cannot be read"
	}

	return r, nil
}

// Replays lists at most n replays whose prefix is the given one or below it, the latest first.
func (d *DB) Replays(ctx context.Context, prefix string, n int) ([]Replay, error) {
	if err := d.Begin(ctx); err != nil {
		return nil, err
	}

	ctx, cancel := context.WithTimeout(ctx, FindTimeout)
	defer cancel()

	within, args := replaysWithin(prefix)
	return d.replays(ctx, fmt.Sprintf("WHERE %s ORDER BY made DESC, id LIMIT %d", within, n), args...)
}

// replaysWithin returns the condition on replays whose prefix is the given one or below it.
func replaysWithin(prefix string) (condition string, args []any) {
	if prefix == "" {
		return "1 = 1", nil
	}
	return "(prefix = ? OR substr(prefix, 1, ?) = ?)", []any{prefix, len(prefix) + 1, prefix + ":"}
}

// ReplayQuery selects replays by the name that a client gave.
type ReplayQuery struct {
	Name   string
	Prefix string // of the caller; empty = all
	Caller string // the client that asks: its replay comes before those of others
	// Whose, if not nil, is the client that created the replay.
	Whose *string
}

// FindReplays returns the replay of the caller that has the name, or at most two of other
// clients, the latest first.
func (d *DB) FindReplays(ctx context.Context, q ReplayQuery) ([]Replay, error) {
	if err := d.Begin(ctx); err != nil {
		return nil, err
	}

	ctx, cancel := context.WithTimeout(ctx, FindTimeout)
	defer cancel()

	within, args := replaysWithin(q.Prefix)
	where := "WHERE (name = ? OR name = '' AND id = ?) AND " + within
	args = append([]any{q.Name, q.Name}, args...)
	if q.Whose != nil {
		where += " AND client = ?"
		args = append(args, *q.Whose)
	}

	list, err := d.replays(ctx, where+" ORDER BY CASE WHEN client = ? THEN 0 ELSE 1 END, made DESC, id LIMIT 2", append(args, q.Caller)...)
	if len(list) > 1 && list[0].Client == q.Caller {
		list = list[:1]
	}

	return list, err
}

func (d *DB) replays(ctx context.Context, where string, args ...any) ([]Replay, error) {
	rows, err := d.db.QueryContext(ctx, d.marks("SELECT "+replayColumns+" FROM history_replays "+where), args...)
	if err != nil {
		return nil, d.wrap("replays", err)
	}

	defer rows.Close()

	var list []Replay

	for rows.Next() {
		r, err := scanReplay(rows.Scan)
		if err != nil {
			return nil, d.wrap("replays", err)
		}

		list = append(list, r)
	}

	return list, d.wrap("replays", rows.Err())
}

// Replay returns the replay with an ID; ok is false if there is none.
func (d *DB) Replay(ctx context.Context, id string) (r Replay, ok bool, err error) {
	if err := d.Begin(ctx); err != nil {
		return Replay{}, false, err
	}
	return d.changedReplay(ctx, "SELECT "+replayColumns+" FROM history_replays WHERE id = ?", id)
}

// changedReplay returns the one replay that a statement returns; ok is false if it returns none.
func (d *DB) changedReplay(ctx context.Context, text string, args ...any) (r Replay, ok bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, FindTimeout)
	defer cancel()

	r, err = scanReplay(d.db.QueryRowContext(ctx, d.marks(text), args...).Scan)
	if errors.Is(err, sql.ErrNoRows) {
		return Replay{}, false, nil
	}

	return r, err == nil, d.wrap("replay", err)
}

// StopReplay stops a running replay; ok is false if it does not run.
func (d *DB) StopReplay(ctx context.Context, id string) (ok bool, err error) {
	if err := d.Begin(ctx); err != nil {
		return false, err
	}

	_, ok, err = d.changedReplay(ctx, "UPDATE history_replays SET state = 'stopped', driver = '', changed = "+d.clock(0)+
		" WHERE id = ? AND state = 'running' RETURNING "+replayColumns, id)
	return ok, err
}

// ResumeReplay continues a stopped replay; ok is false if it is not stopped.
func (d *DB) ResumeReplay(ctx context.Context, id string) (ok bool, err error) {
	if err := d.Begin(ctx); err != nil {
		return false, err
	}

	_, ok, err = d.changedReplay(ctx, "UPDATE history_replays SET state = 'running', driver = '', lease = "+d.clock(0)+
		", changed = "+d.clock(0)+
		" WHERE id = ? AND state = 'stopped' RETURNING "+replayColumns, id)
	return ok, err
}

// TakeReplay assigns a running replay without a driver to this driver, for a limited time. It leaves those of some clients
// to other drivers. ok is false if there is none.
func (d *DB) TakeReplay(ctx context.Context, driver string, hold time.Duration, except []string) (r Replay, ok bool, err error) {
	if err := d.Begin(ctx); err != nil {
		return Replay{}, false, err
	}

	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()

	const free = "state = 'running' AND (driver = '' OR lease <= "
	var id string
	args := make([]any, len(except))
	for i, client := range except {
		args[i] = client
	}

	text := "SELECT id FROM history_replays WHERE " + free + d.clock(0) + ")" + strings.Repeat(" AND client <> ?", len(except)) +
		" ORDER BY made, id LIMIT 1"
	err = d.db.QueryRowContext(ctx, d.marks(text), args...).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		return Replay{}, false, nil
	}
	if err != nil {
		return Replay{}, false, d.wrap("replay", err)
	}

	return d.changedReplay(ctx, "UPDATE history_replays SET driver = ?, lease = "+d.clock(hold)+" WHERE id = ? AND "+free+d.clock(0)+
		") RETURNING "+replayColumns, driver, id)
}

// KeepReplay renews a driver's hold and stores its progress; ok is false if the replay was stopped or taken
// by another driver.
func (d *DB) KeepReplay(ctx context.Context, r *Replay, driver string, hold time.Duration) (ok bool, err error) {
	counts, err := json.Marshal(r.Counts)
	if err != nil {
		return false, err
	}

	_, ok, err = d.changedReplay(ctx, "UPDATE history_replays SET done = ?, counts = ?, changed = "+d.clock(0)+", lease = "+d.clock(hold)+
		" WHERE id = ? AND driver = ? AND state = 'running' RETURNING "+replayColumns, r.Done, string(counts), r.ID, driver)
	return ok, err
}

// LeaveReplay ends a driver's hold, so that another driver can take the replay at once.
func (d *DB) LeaveReplay(ctx context.Context, id, driver string) error {
	return d.run(ctx, "UPDATE history_replays SET driver = '' WHERE id = ? AND driver = ?", id, driver)
}

// EndReplay records that a driver's replay is done, or has failed for a reason, and deletes its items.
func (d *DB) EndReplay(ctx context.Context, r *Replay, driver string) error {
	counts, err := json.Marshal(r.Counts)
	if err != nil {
		return err
	}

	_, ok, err := d.changedReplay(ctx, "UPDATE history_replays SET state = ?, reason = ?, done = ?, counts = ?, changed = "+d.clock(0)+
		", driver = '' WHERE id = ? AND driver = ? AND state = 'running' RETURNING "+replayColumns, string(r.State), r.Reason, r.Done,
		string(counts), r.ID, driver)
	if err != nil || !ok {
		return err
	}

	return d.forgetItems(ctx)
}

// forgetItems deletes the items of replays that are finished or deleted.
func (d *DB) forgetItems(ctx context.Context) error {
	return d.run(ctx, "DELETE FROM history_replay_items WHERE replay NOT IN (SELECT id FROM history_replays WHERE state IN ('running', "+
		"'stopped'))")
}

// run runs a statement that returns nothing.
func (d *DB) run(ctx context.Context, text string, args ...any) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	_, err := d.db.ExecContext(ctx, d.marks(text), args...)
	return d.wrap("replay", err)
}

// expireReplays deletes replays that have not changed for 30 days.
func (d *DB) expireReplays(ctx context.Context, now time.Time) error {
	if err := d.run(ctx, "DELETE FROM history_replays WHERE changed < ?", d.time(now.Add(-replayKept))); err != nil {
		return err
	}

	return d.forgetItems(ctx)
}

// ReplayItem is a notice of a replay with the row from which it is sent.
type ReplayItem struct {
	Number int64
	Shard  int
	// Row is nil if the row was deleted: its retention ended, or it was erased.
	Row *Row
}

// ReplayItems reads up to n items of a replay after a number.
func (d *DB) ReplayItems(ctx context.Context, id string, after int64, n int) ([]ReplayItem, error) {
	ctx, cancel := context.WithTimeout(ctx, FindTimeout)
	defer cancel()
	list, err := d.replayItems(ctx, id, after, n)
	return list, d.wrap("replay", err)
}

func (d *DB) replayItems(ctx context.Context, id string, after int64, n int) ([]ReplayItem, error) {
	from := fmt.Sprintf("FROM (SELECT * FROM history_replay_items WHERE replay = ? AND number > ? ORDER BY number LIMIT %d) i", n)
	rows, err := d.db.QueryContext(ctx, d.marks("SELECT i.number, i.shard "+from+" ORDER BY i.number"), id, after)
	if err != nil {
		return nil, err
	}

	defer rows.Close()

	var list []ReplayItem
	at := map[int64]int{}

	for rows.Next() {
		var it ReplayItem
		if err := rows.Scan(&it.Number, &it.Shard); err != nil {
			return nil, err
		}

		at[it.Number] = len(list)
		list = append(list, it)
	}

	if err := rows.Err(); err != nil || len(list) == 0 {
		return nil, err
	}

	contents, err := d.db.QueryContext(ctx, d.marks("SELECT i.number, h."+strings.Join(columns, ", h.")+" "+from+
		" JOIN history h ON h.ended = i.ended AND h.id = i.id AND h.ending = i.ending"), id, after)
	if err != nil {
		return nil, err
	}

	defer contents.Close()

	for contents.Next() {
		var number int64
		r, err := d.scan(contents, &number)
		if err != nil {
			return nil, err
		}

		if i, ok := at[number]; ok {
			list[i].Row = &r
		}
	}

	return list, contents.Err()
}
