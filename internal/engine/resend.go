package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"notifier/internal/history"
	"notifier/internal/jobs"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/store"
	"notifier/internal/wire"
)

// resendTries is how often Resend starts again after a concurrent change of the notice.
const resendTries = 5

// Resend schedules a delivered or dead notice again, with the same webhook-id. id is that webhook-id, and ending is how
// often the notice had been finalized when the caller read it. If the notice cannot be resent, for example because it
// was redriven since, the error is a [*jobs.Refusal]. A repeated call normally changes nothing, and sets Repeated.
func (e *Engine) Resend(ctx context.Context, key, id string, ending int, x notice.Expiry) (store.Change, error) {
	for range resendTries {
		f, row, err := e.lastEnding(ctx, key)
		if err != nil {
			return store.Change{}, err
		}

		repeated, err := checkResend(&f, id, ending)
		if err != nil {
			return store.Change{Found: f}, err
		}

		c := store.Change{Found: f, Before: f.State, Repeated: repeated}
		if repeated && (f.State == notice.Scheduled || f.State == notice.Claimed) {
			_, err = e.resendKept(ctx, f, x) // changes nothing, but waits until the first call's write is confirmed
		}

		if repeated || err != nil {
			return c, err
		}

		switch {
		case row != nil && x != notice.Expiry{}:
			return c, fmt.Errorf("%w: expires: the notice is read from the history and does not expire", notice.ErrInvalid)
		case row != nil:
			c, err = e.resendRow(ctx, row)
		default:
			c, err = e.resendKept(ctx, f, x)
		}

		if c.Done || err != nil {
			return c, err
		}
		if unchanged(&f, &c.Found) { // so the script has met a key that the adopter leaves, such as one that never expires
			return c, jobs.Refuse(f.State, jobs.ProducersKey)
		}
	}
	return store.Change{}, jobs.Refuse("", jobs.Changing)
}

// unchanged reports whether a script has found a delivered or dead notice in the state that was read.
func unchanged(read, found *store.Found) bool {
	return found.Notice != nil && found.State == read.State && found.Made == read.Made && found.Ending() == read.Ending()
}

// lastEnding returns a notice, after its timer was adopted if necessary. A notice that Redis no
// longer holds is read from the history; row is then its last entry.
func (e *Engine) lastEnding(ctx context.Context, key string) (f store.Found, row *history.Row, err error) {
	if err := e.known(ctx); err != nil {
		return f, nil, err
	}
	if err := e.adopter.Follow(ctx, key); err != nil {
		return f, nil, err
	}

	f, err = e.Find(ctx, key)
	if !errors.Is(err, store.ErrNotFound) || e.o.History.DB == nil {
		return f, nil, err
	}

	last, ok, failed := e.o.History.DB.Latest(ctx, key)
	switch {
	case errors.Is(failed, history.ErrForeign), failed == nil && !ok: // no entry of this service
		return f, nil, err
	case failed != nil:
		return f, nil, failed
	}

	return store.Found{Notice: last.Notice, State: notice.State(last.Outcome), SettledAt: last.Ended.Truncate(time.Millisecond)}, &last, nil
}

// insteads names the call to use for a notice that is neither delivered nor dead.
var insteads = map[notice.State]jobs.Reason{
	notice.Scheduled: jobs.IsScheduled, notice.Claimed: jobs.IsClaimed, notice.Cancelled: jobs.IsCancelled,
	notice.State(notice.EndReplaced): jobs.IsReplaced,
}

// checkResend reports whether the notice was resent already. The error is a *jobs.Refusal if it
// cannot be resent.
func checkResend(f *store.Found, id string, ending int) (repeated bool, err error) {
	current := f.Ending()
	ended := f.State == notice.Delivered || f.State == notice.Dead
	switch {
	case f.ID() != id:
		return false, jobs.Refuse("", jobs.AnotherNotice, f.ID())
	case f.Resent == ending && ending > 0 && current <= ending+1:
		return true, nil
	case !ended:
		return false, jobs.Refuse(f.State, insteads[f.State])
	case current != ending:
		return false, jobs.Refuse(f.State, jobs.NotCurrent, current, ending)
	case f.Raw != nil && f.State == notice.Dead:
		return false, jobs.Refuse(f.State, jobs.NoDeadRecord)
	case f.Raw != nil:
		return false, jobs.Refuse(f.State, jobs.NoRecord)
	}

	return false, nil
}

// resendKept resends a notice that Redis holds.
func (e *Engine) resendKept(ctx context.Context, f store.Found, x notice.Expiry) (store.Change, error) {
	ctx, cancel := e.bounded(ctx)
	defer cancel()
	c, err := e.store.Resend(ctx, f, x)
	if c.Done {
		c.Before = f.State
		e.hint(&c.Found)
	}

	return c, err
}

// resendRow resends a notice from its last entry in the history.
func (e *Engine) resendRow(ctx context.Context, row *history.Row) (store.Change, error) {
	n, err := jobs.FromRow(e.o.Routes, row)
	if err != nil {
		return store.Change{}, err
	}

	result, err := e.keyring().Ready(ctx, e.store.Space().Shard(n.Key), []*notice.Notice{n})
	if err != nil {
		return store.Change{}, err
	}
	if result[0] != "" {
		return store.Change{}, jobs.RefuseRow(row, result[0])
	}

	// The due time becomes the position in the notice's sequence. Only a dead letter that holds back its successors keeps it.
	if r := e.o.Routes.Match(n.Key); row.Outcome != notice.EndDead || r == nil || r.Order != route.OrderBlock {
		n.Due = e.Now()
	}

	reply := e.Restore(ctx, []store.Letter{{Notice: n}})[0]
	switch {
	case errors.Is(reply.Err, store.ErrTaken): // the key has a new notice
		return store.Change{}, nil
	case reply.Err != nil && !errors.Is(reply.Err, wire.ErrUnconfirmed):
		return store.Change{}, reply.Err
	}

	c := store.Change{Found: reply.Found, Done: reply.Created, Before: notice.State(row.Outcome)}
	if c.Done {
		e.hint(&c.Found)
	}

	return c, reply.Err
}

// hint lets dispatch claim a notice that is due now, unless it is stored under another route's
// prefix.
func (e *Engine) hint(f *store.Found) {
	if r := e.o.Routes.Match(f.Key); r != nil && r.Prefix == f.Route {
		e.dispatch.Hint(r, f.Key)
	}
}
