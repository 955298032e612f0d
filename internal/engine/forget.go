package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.uber.org/zap"

	"notifier/internal/fleet"
	"notifier/internal/jobs"
	"notifier/internal/pace"
	"notifier/internal/seal"
	"notifier/internal/vault"
	"notifier/internal/wire"
)

// ForgetSubject deletes the keys of a subject, starts a job that cancels its pending notices, and waits until no instance may use
// the keys any more. It may be repeated after an error, and does then the missing steps.
func (e *Engine) ForgetSubject(ctx context.Context, of seal.Subject, client string) (f jobs.Forgotten, err error) {
	if err := e.forgets(ctx); err != nil {
		return f, err
	}

	in, err := e.forgetEverywhere(ctx, of)
	f.At, f.Keys = in.At, in.Deleted
	if err != nil && !errors.Is(err, wire.ErrUnconfirmed) {
		return f, err
	}

	late := err
	if err := e.forgetInHistory(ctx, of, in); err != nil {
		return f, err
	}

	deleted := time.Now()
	if f.Job, err = e.cancelSubject(ctx, of, client, f.At); err != nil {
		return f, fmt.Errorf("the keys are deleted, but the pending notices are not being cancelled: %w", err)
	}
	if !pace.Wait(ctx, e.vault.KeyAge-time.Since(deleted)) {
		return f, fmt.Errorf("forget: %w: %w", wire.ErrUnavailable, ctx.Err())
	}

	list, err := e.Instances(ctx)
	for _, x := range list {
		if x.State == fleet.Unresponsive || !x.Forgets {
			f.Missing = append(f.Missing, x)
		}
	}

	return f, cmp.Or(err, late)
}

// forgetInHistory deletes the keys of a subject that was forgotten in Redis.
func (e *Engine) forgetInHistory(ctx context.Context, of seal.Subject, in vault.Forgotten) error {
	if e.o.History.DB == nil {
		return nil
	}

	if _, err := e.o.History.DB.ForgetKeys(ctx, of, in); err != nil {
		return fmt.Errorf("%w: %w", jobs.ErrHistoryKeeps, err)
	}

	return nil
}

// forgets returns wire.ErrMoved during a migration, because each side has keys then. It returns jobs.ErrHistoryElsewhere if only other
// instances have the history.
func (e *Engine) forgets(ctx context.Context) error {
	if err := e.known(ctx); err != nil {
		return err
	}
	if err := e.store.Whole(); err != nil {
		return fmt.Errorf("forget: %w", err)
	}
	if e.o.History.DB == nil && e.store.Layout.HandsOver() {
		return jobs.ErrHistoryElsewhere
	}

	return nil
}

// forgetEverywhere deletes the keys of a subject in all shards.
func (e *Engine) forgetEverywhere(ctx context.Context, of seal.Subject) (done vault.Forgotten, err error) {
	var unconfirmed error
	err = e.inAllPlaces(ctx, func() error {
		was := done.Deleted
		done, err = e.vault.ForgetSubject(ctx, of)
		done.Deleted += was
		if errors.Is(err, wire.ErrUnconfirmed) {
			unconfirmed, err = err, nil
		}

		return err
	})
	return done, cmp.Or(err, unconfirmed)
}

// inAllPlaces calls f, and again while a reshard has made other shards current, which f may not have reached. It returns wire.ErrMoved
// if a migration has begun.
func (e *Engine) inAllPlaces(ctx context.Context, f func() error) error {
	for places := 0; places != e.store.Space().Places(); {
		places = e.store.Space().Places()
		if err := f(); err != nil {
			return err
		}
		if err := e.store.Layout.Learn(ctx); err != nil {
			return err
		}
		if err := e.forgets(ctx); err != nil {
			return err
		}
	}

	return nil
}

// cancelSubject returns the job that cancels the pending notices of a subject that was forgotten at a time. It starts one unless
// one is running.
func (e *Engine) cancelSubject(ctx context.Context, of seal.Subject, client string, at time.Time) (jobs.Job, error) {
	list, err := e.jobStore().List(ctx)
	if err != nil {
		return jobs.Job{}, err
	}

	for _, x := range list {
		if x.State == jobs.Running && x.Kind == jobs.KindCancel && x.Subject == of && x.Made.After(at) {
			return x, nil
		}
	}

	x := jobs.Job{Kind: jobs.KindCancel, Client: client, Filter: jobs.Filter{Subject: of}}
	if key, ok := of.OrderKey(); ok {
		x.Prefix = key[:strings.LastIndexByte(key, ':')]
	}

	return e.MakeJob(ctx, x)
}

// LiftSubject lets notices of a forgotten subject be scheduled again, with new keys. It reports whether the subject was forgotten.
func (e *Engine) LiftSubject(ctx context.Context, of seal.Subject) (bool, error) {
	if err := e.forgets(ctx); err != nil {
		return false, err
	}

	inHistory := false
	if e.o.History.DB != nil { // first, because it stores no keys of new notices before
		var err error
		if inHistory, err = e.o.History.DB.LiftSubject(ctx, of); err != nil {
			return false, err
		}
	}

	marked := inHistory
	err := e.inAllPlaces(ctx, func() error {
		was, err := e.vault.Lift(ctx, of)
		marked = marked || was
		return err
	})
	return marked, err
}

const (
	// recallEvery is how often an instance asks whether the history has forgotten subjects that Redis has not.
	recallEvery = time.Minute
	// recallWait is how long the start waits for the history's answer.
	recallWait = 2 * time.Second
	// recallStart is how long the start forgets subjects again, and recallMost how long a later recall does.
	recallStart, recallMost = time.Minute, 10 * time.Minute
)

// recallForgotten forgets again what the history has recorded and Redis has not, or Redis and not the history, because one of them was
// restored from a backup. It reports whether it did, within a time.
func (e *Engine) recallForgotten(ctx context.Context, within time.Duration) bool {
	if !e.sealed.routes || e.o.History.DB == nil {
		return true
	}
	if !e.historyAnswers(ctx) {
		return false
	}

	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	done, err := e.vault.Recall(ctx, e.o.History.DB)
	if n := done.InRedis; n > 0 {
		e.o.Logger.Warn("Redis had keys of forgotten subjects again, or lacked their marks; forgot the subjects again", zap.Int("subjects", n))
	}

	if n := done.InArchive; n > 0 {
		e.o.Logger.Warn("the history had keys of forgotten subjects, or lacked their marks; forgot the subjects there", zap.Int("subjects", n))
	}

	return err == nil
}

// historyAnswers reports whether the history answers within recallWait.
func (e *Engine) historyAnswers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, recallWait)
	defer cancel()
	_, err := e.o.History.DB.MarksState(ctx)
	return err == nil
}

// keepForgotten calls recallForgotten until ctx ends, also after each reconnect.
func (e *Engine) keepForgotten(ctx context.Context) error {
	failed := false
	for {
		ok := e.recallForgotten(ctx, recallMost)
		if !ok && !failed && ctx.Err() == nil {
			e.o.Logger.Warn("cannot compare forgotten subjects with the history, trying again each minute")
		}

		failed = !ok
		select {
		case <-ctx.Done():
			return nil
		case <-e.sealed.again:
		case <-time.After(recallEvery):
		}
	}
}
