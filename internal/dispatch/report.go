package dispatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	receivers "notifier/internal/health"
	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/retry"
	"notifier/internal/route"
	"notifier/internal/store"
	"notifier/internal/wire"
)

// ReportStore is what reports need of Redis.
type ReportStore interface {
	Settle(ctx context.Context, p keys.Partition, list []store.Settlement) ([]store.Settled, error)
	Reopen(ctx context.Context, f store.Found, t store.Settlement) (store.Change, error)
}

// Finder reads a notice, wherever it is stored.
type Finder interface {
	Find(ctx context.Context, key string) (store.Found, error)
}

// Reports takes what consumers say of the entries they got from a list or a
// stream. It is safe for concurrent use.
//
// A report names the notice and the attempt that its entry was of, and settles
// those only: what is written is compared with them once more by the script that
// writes. Where reports are awaited, one ends the attempt; otherwise the push
// was the delivery, and a report of failure opens the notice again. A report
// that comes again changes nothing and is no error; one that comes too late, or
// speaks of a notice that another has replaced, changes nothing and says so.
type Reports struct {
	Store   ReportStore
	Notices Finder
	Logger  *zap.Logger
	// LogAttempts chooses the reports that are logged.
	LogAttempts notice.LogAttempts
	// Observer counts the ends of attempts; it may be nil.
	Observer AttemptObserver
	// Health, if not nil, collects how receivers answer.
	Health *receivers.Tracker
	// Ahead: entries may reach their consumers before the notice says so, as in
	// a cluster, where a push is a command of its own.
	Ahead bool
}

// defaultDeferral is how long a consumer's deferral lasts that names no time.
const defaultDeferral = 5 * time.Second

// maxDeferrals is how often a consumer may put a notice off before that costs an
// attempt: a lock that is never freed must not keep it pending for good.
const maxDeferrals = 100

const (
	// maxRereads is how often a report looks again when it met a notice that
	// changed beneath it. Each time means that somebody else was faster.
	maxRereads = 5
	// maxPushWait is how long a report waits for the settle of a push that its
	// consumer has seen already.
	maxPushWait = 2 * time.Second
)

// Take takes a report on a notice of route r.
func (p *Reports) Take(ctx context.Context, r *route.Route, key string, v notice.Report) (store.Change, error) {
	push := retry.Loop{Min: time.Millisecond, Max: 100 * time.Millisecond}
	reread := retry.Loop{Min: 5 * time.Millisecond, Max: 80 * time.Millisecond}
	until := time.Now().Add(maxPushWait)
	for range maxRereads {
		f, err := p.Notices.Find(ctx, key)
		for err == nil && p.Ahead && pushing(f, v) {
			if time.Now().After(until) {
				return store.Change{}, fmt.Errorf("%s: attempt %d is not handed over yet: %w", key, v.Attempt, wire.ErrUnavailable)
			}
			select {
			case <-ctx.Done():
				return store.Change{}, ctx.Err()
			case <-time.After(push.Next()):
			}
			f, err = p.Notices.Find(ctx, key)
		}
		if err != nil {
			return store.Change{}, err
		}
		if !due(r, f, v) {
			return store.Change{Found: f, Before: f.State, Repeated: repeats(f, v)}, nil
		}
		c, err := p.end(ctx, r, f, v)
		if err != nil || c.Done {
			return c, err
		}
		select { // the sweep that is faster may make the wait longer
		case <-ctx.Done():
			return store.Change{}, ctx.Err()
		case <-time.After(reread.Next()):
		}
	}
	f, err := p.Notices.Find(ctx, key)
	return store.Change{Found: f, Before: f.State}, err
}

// pushing reports whether the entry that v speaks of is out, and its settle is
// not.
func pushing(f store.Found, v notice.Report) bool {
	return f.ID() == v.ID && f.State == notice.Claimed && !f.AwaitsReport && f.NextAttempt() == v.Attempt
}

// due reports whether v is what f waits for, or may still undo.
func due(r *route.Route, f store.Found, v notice.Report) bool {
	switch {
	case f.ID() != v.ID || f.AttemptsMade != v.Attempt:
		return false
	case f.State == notice.Claimed, f.State == notice.Scheduled: // the time for it may have ended in an outage, and nobody has looked since
		return f.AwaitsReport
	case f.State == notice.Delivered:
		return v.Outcome != notice.OutcomeDelivered && r.Ack.Kind != route.AckReport &&
			(r.Target.Kind == route.KindList || r.Target.Kind == route.KindStream)
	}
	return false
}

// repeats reports whether what v reports is what f holds of that attempt already.
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
	// One that was put off is not there: its number comes again.
	return v.Outcome == notice.OutcomeDeferred && f.NextAttempt() == v.Attempt && f.Locked > 0 &&
		(f.State == notice.Scheduled || f.State == notice.Claimed)
}

// end writes what v makes of f. Done is false if f is not there any more as it
// was read.
func (p *Reports) end(ctx context.Context, r *route.Route, f store.Found, v notice.Report) (store.Change, error) {
	before := f.State
	e := p.finished(r, f, v)
	c, err := p.write(ctx, f, before, e.Settlement)
	if err != nil {
		// It may have been written although no answer came; it counts once.
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
		attemptLog{cmp.Or[AttemptObserver](p.Observer, silent{}), p.LogAttempts, p.Logger}.record(&e, r, s)
	}
	return c, nil
}

// finished is how the attempt ends that v reports on. f's notice is changed.
func (p *Reports) finished(r *route.Route, f store.Found, v notice.Report) finished {
	e := finished{attempt: v.Attempt, trigger: triggerReport, result: v.Result}
	if e.result.Outcome == notice.OutcomeDeferred && e.result.After <= 0 {
		e.result.After = defaultDeferral
	}
	if e.result.Outcome == notice.OutcomeDeferred && f.Locked >= maxDeferrals {
		e.result.Outcome = notice.OutcomeRetry
	}
	if n := len(f.Attempts); n > 0 {
		e.took = max(time.Since(f.Attempts[n-1].At), 0)
	}
	claim := store.Reported(f)
	f.AwaitsReport = true // also of one that counts as delivered: the report ends the attempt that was counted
	e.Settlement = End(r, &claim, e.result, notice.Attempt{At: time.Now()}, notice.Waits{})
	return e
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
		after, err = store.Found{Notice: f.Notice, State: notice.Delivered, SettledAt: time.Now().UTC()}, nil
	}
	return store.Change{Found: after, Before: before, Done: true}, err
}
