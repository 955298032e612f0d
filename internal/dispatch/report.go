package dispatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/pace"
	"notifier/internal/receivers"
	"notifier/internal/route"
	"notifier/internal/store"
	"notifier/internal/wire"
)

// ReportStore is the set of Redis operations that reports use.
type ReportStore interface {
	Settle(ctx context.Context, p keys.Partition, list []store.Settlement) ([]store.Settled, error)
	Reopen(ctx context.Context, f store.Found, t store.Settlement) (store.Change, error)
	FreeReported(ctx context.Context, prefix, key, id string, attempt int) error
}

// Finder reads a notice from any shard.
type Finder interface {
	Find(ctx context.Context, key string) (store.Found, error)
}

// Reports processes the reports of consumers, which receive notices as entries of a list or stream. A report says that
// the entry was processed, that it failed, or that the consumer wants it later (a deferral). [Reports.Take] processes
// one report. Reports is safe for concurrent use.
type Reports struct {
	Store   ReportStore
	Notices Finder
	Logger  *zap.Logger
	// LogAttempts selects the reports that are logged.
	LogAttempts notice.LogAttempts
	// Observer counts the ends of attempts; it may be nil.
	Observer AttemptObserver
	// Health records the answers of receivers, unless it is nil.
	Health *receivers.Tracker
	// Vault seals the responses of reports on sealed notices. Nil: these responses are not kept.
	Vault Vault
	// Ahead is set if entries may reach consumers before the push is settled. That is so in a
	// cluster, where the push is a separate command.
	Ahead bool
	// Now is Redis's clock. Nil means time.Now.
	Now func() time.Time
}

// defaultDeferral is the delay of a consumer's deferral that names no time.
const defaultDeferral = 5 * time.Second

// maxDeferrals is the number of deferrals by a consumer after which each one uses an attempt, so
// that a lock that is never freed does not keep a notice pending forever.
const maxDeferrals = 100

const (
	// maxRereads bounds how often a report reads its notice again after a concurrent change.
	maxRereads = 5
	// maxPushWait is how long a report waits for the settle of the push that its consumer received.
	maxPushWait = 2 * time.Second
)

// Take processes a report on the notice of a key, whose route is r. Outdated reports, and usually repeated ones, change
// nothing: Take then returns the present state of the notice. It fails if the key has no notice. A report on a notice that
// was cancelled or replaced since lets the next notice of its sequence start.
func (p *Reports) Take(ctx context.Context, r *route.Route, key string, v notice.Report) (store.Change, error) {
	push := pace.Loop{Min: time.Millisecond, Max: 100 * time.Millisecond}
	reread := pace.Loop{Min: 5 * time.Millisecond, Max: 80 * time.Millisecond}
	until := time.Now().Add(maxPushWait)
	for range maxRereads {
		f, err := p.pushed(ctx, key, v, &push, until)
		gone := errors.Is(err, store.ErrNotFound) // also a cancelled notice, if retention is off
		if err != nil && !gone {
			return store.Change{}, err
		}

		if gone || !due(r, f, v) {
			if failed := p.Store.FreeReported(ctx, r.Prefix, key, v.ID, v.Attempt); failed != nil || gone {
				return store.Change{}, cmp.Or(failed, err)
			}
			return store.Change{Found: f, Before: f.State, Repeated: repeats(f, v)}, nil
		}

		c, err := p.end(ctx, r, f, v)
		if err != nil || c.Done {
			return c, err
		}

		select { // back off: a sweep may change the notice again
		case <-ctx.Done():
			return store.Change{}, ctx.Err()
		case <-time.After(reread.Next()):
		}
	}

	f, err := p.Notices.Find(ctx, key)
	return store.Change{Found: f, Before: f.State}, err
}

// pushed reads a notice, and waits until the settle of the push that v reports on is written.
func (p *Reports) pushed(ctx context.Context, key string, v notice.Report, push *pace.Loop, until time.Time) (store.Found, error) {
	for {
		f, err := p.Notices.Find(ctx, key)
		if err != nil || !p.Ahead || !pushing(f, v) {
			return f, err
		}
		if time.Now().After(until) {
			return f, fmt.Errorf("%s: attempt %d is not handed over yet: %w", key, v.Attempt, wire.ErrUnavailable)
		}

		select {
		case <-ctx.Done():
			return f, ctx.Err()
		case <-time.After(push.Next()):
		}
	}
}

// pushing reports whether the entry of v is pushed, but not settled yet.
func pushing(f store.Found, v notice.Report) bool {
	return f.ID() == v.ID && f.State == notice.Claimed && !f.AwaitsReport && f.NextAttempt() == v.Attempt
}

// due reports whether f awaits v, or v can still reopen it.
func due(r *route.Route, f store.Found, v notice.Report) bool {
	switch {
	case f.ID() != v.ID || f.AttemptsMade != v.Attempt:
		return false
	case f.State == notice.Claimed, f.State == notice.Scheduled: // scheduled: its deadline may have passed during an outage, unnoticed so far
		return f.AwaitsReport
	case f.State == notice.Delivered: // by the push, on a route that does not await reports: a success changes nothing
		return v.Outcome != notice.OutcomeDelivered && r.Ack.Kind != route.AckReport &&
			(r.Target.Kind == route.KindList || r.Target.Kind == route.KindStream)
	}
	return false
}

// repeats reports whether f already contains the result that v reports.
func repeats(f store.Found, v notice.Report) bool {
	if f.ID() != v.ID {
		return false
	}

	for _, a := range f.Attempts {
		if a.Number != v.Attempt || f.AwaitsReport && a.Number == f.AttemptsMade {
			continue
		}
		return a.Reason == v.Reason && (v.Outcome != notice.OutcomeDead || f.State == notice.Dead && a.Number == f.AttemptsMade)
	}

	// A deferred attempt is not in the record: its number is used again.
	return v.Outcome == notice.OutcomeDeferred && f.NextAttempt() == v.Attempt && f.Locked > 0 &&
		(f.State == notice.Scheduled || f.State == notice.Claimed)
}

// end settles f with v. Done is false if f was changed after it was read.
func (p *Reports) end(ctx context.Context, r *route.Route, f store.Found, v notice.Report) (store.Change, error) {
	before := f.State
	sealed := p.sealResponse(ctx, f, &v)
	e := p.finished(r, f, v, sealed)
	c, err := p.write(ctx, f, before, e.Settlement)
	if err != nil {
		// Redis may have written the settle although no reply came; it counts once.
		now, lost := p.Notices.Find(ctx, f.Key)
		if lost != nil || !repeats(now, v) {
			return store.Change{}, err
		}

		c = store.Change{Found: now, Before: before, Done: true}
	}

	if c.Done {
		s := store.Settled{}
		if c.State == notice.Scheduled {
			s.Due = c.Due
		}

		e.observeReceiver(p.Health, r)
		attemptLog{cmp.Or[AttemptObserver](p.Observer, nop{}), p.LogAttempts, p.Logger}.record(&e, r, s)
	}

	return c, nil
}

// finished returns the settlement of the attempt that v reports on. sealed is its response, if f is sealed. It changes f's notice.
func (p *Reports) finished(r *route.Route, f store.Found, v notice.Report, sealed string) finished {
	e := finished{attempt: v.Attempt, trigger: triggerReport, result: v.Result}
	if e.result.Outcome == notice.OutcomeDeferred && e.result.After <= 0 {
		e.result.After = defaultDeferral
	}

	if e.result.Outcome == notice.OutcomeDeferred && f.Locked >= maxDeferrals {
		e.result.Outcome = notice.OutcomeRetry
	}

	now := p.now()
	if n := len(f.Attempts); n > 0 {
		e.took = max(now.Sub(f.Attempts[n-1].At), 0)
	}

	e.at = now.Add(-e.took)

	claim := store.Reported(f)
	f.AwaitsReport = true // also if it is delivered: the report ends the attempt that was counted
	e.Settlement = End(r, &claim, e.result, notice.Attempt{At: now, Sealed: sealed}, notice.Waits{})
	return e
}

func (p *Reports) now() time.Time {
	if p.Now == nil {
		return time.Now()
	}
	return p.Now()
}

func (p *Reports) write(ctx context.Context, f store.Found, before notice.State, s store.Settlement) (store.Change, error) {
	if before == notice.Delivered {
		return p.Store.Reopen(ctx, f, s)
	}

	done, err := p.Store.Settle(ctx, s.Claim.Partition(), []store.Settlement{s})
	if err != nil {
		return store.Change{}, err
	}
	if done[0].Stale {
		return store.Change{}, nil
	}

	after, err := p.Notices.Find(ctx, f.Key)
	if errors.Is(err, store.ErrNotFound) { // retention is off
		after, err = store.Found{Notice: f.Notice, State: notice.Delivered, SettledAt: p.now().UTC()}, nil
	}

	return store.Change{Found: after, Before: before, Done: true}, err
}
