package history

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"notifier/internal/notice"
	"notifier/internal/store"
	"notifier/internal/vault"
)

// ErrNotPaused means that a route could deliver notices during their comparison with the history.
var ErrNotPaused = errors.New("not paused")

// Settled is the result of Settle.
type Settled struct {
	Checked   int `json:"checked"`   // pending notices and dead letters
	Delivered int `json:"delivered"` // settled, because the history has their delivery
	Cancelled int `json:"cancelled"` // settled, because the history has their cancellation, or a later notice of their key
	Died      int `json:"died"`      // pending, although they died later; retrying continues
	Changed   int `json:"changed"`   // not settled, because they changed during the call
	Forgotten int `json:"forgotten"` // subjects that were forgotten after the backup, and are so again
}

// Settle prevents duplicate deliveries after Redis was restored from a backup. If the history, the database of
// finalized notices, shows that a pending or dead notice was delivered, cancelled or replaced later, Settle normally
// marks it as delivered or cancelled in Redis. Subjects that were forgotten later are forgotten again. With dryRun, Settle
// only counts. Otherwise the notices' routes must be paused, or the error wraps ErrNotPaused. Settle may be repeated.
func (d *DB) Settle(ctx context.Context, s *store.Store, dryRun bool) (done Settled, err error) {
	again, err := vault.Recall(ctx, s.Wire(), d, dryRun)
	if done.Forgotten = again.InRedis + again.InArchive; err != nil {
		return done, err
	}

	paused, err := s.Layout.Paused(ctx)
	if err != nil {
		return done, err
	}

	write := func(known []store.Known) error { return settle(ctx, s, known, paused, &done) }
	if dryRun {
		write = func([]store.Known) error { return nil }
	}

	for _, state := range []notice.State{notice.Scheduled, notice.Claimed, notice.Dead} {
		if err := d.settleState(ctx, s, state, write, &done); err != nil {
			return done, err
		}
	}

	return done, nil
}

// settleState calls write with the notices of a state that were finalized later, a page at a time.
func (d *DB) settleState(ctx context.Context, s *store.Store, state notice.State, write func([]store.Known) error, done *Settled) error {
	q := store.Query{Routes: s.Layout.Prefixes(), State: state, Limit: MostOutcomes}
	for {
		page, err := s.List(ctx, q)
		if err != nil {
			return err
		}
		if len(page.Missing) > 0 {
			return page.Missing[0].Err
		}

		known, err := d.compare(ctx, page.Items, done)
		if err == nil {
			err = write(known)
		}

		if err != nil {
			return err
		}
		if q.Cursor = page.Cursor; q.Cursor == "" {
			return nil
		}
	}
}

// compare returns and counts the notices of a page that were finalized later.
func (d *DB) compare(ctx context.Context, page []store.Found, done *Settled) (known []store.Known, err error) {
	list := make([]*notice.Notice, len(page))
	for i := range page {
		list[i] = page[i].Notice
	}

	rows, err := d.Outcomes(ctx, list)
	if err != nil {
		return nil, err
	}

	done.Checked += len(page)
	for _, f := range page {
		if f.Raw != nil {
			continue // an unreadable record
		}

		endings := f.Endings
		if f.State == notice.Dead {
			endings++
		}

		ended := rows[Ref{f.Key, f.ID()}]
		row, state, ok := knownOutcome(ended, endings)

		switch {
		case ok && state == notice.Delivered:
			done.Delivered++
		case ok:
			done.Cancelled++
		default:
			if n := len(ended); n > 0 && ended[n-1].Number > endings && f.State != notice.Dead {
				done.Died++
			}
			continue
		}

		known = append(known, store.Known{Found: f, Outcome: state, After: endedAs(f.Notice, &row)})
	}

	return known, nil
}

// endedAs returns a finalized notice with the attempts from the history and the content from the record.
func endedAs(n *notice.Notice, row *Row) *notice.Notice {
	x := *n
	x.Due, x.AttemptsMade, x.Attempts, x.Endings = row.Due, row.AttemptsMade, row.Attempts, max(row.Number-1, 0)
	x.Redriven = min(x.Redriven, x.AttemptsMade)
	x.Reason, x.AwaitsReport, x.Locked = "", false, 0
	return &x
}

func settle(ctx context.Context, s *store.Store, known []store.Known, paused []string, done *Settled) error {
	for i := range known {
		if prefix := known[i].Route; !slices.Contains(paused, prefix) {
			return fmt.Errorf("%w: the route of prefix %s may deliver notices that were delivered before; pause it first: notifier pause, or, "+
				"while no instance runs, "+
				"redis-cli SADD %s %s", ErrNotPaused, prefix, s.Space().Paused(), prefix)
		}
	}

	n, err := s.SettleKnown(ctx, known)
	done.Changed += len(known) - n
	return err
}
