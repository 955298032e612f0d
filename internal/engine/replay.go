package engine

import (
	"context"
	"fmt"
	"time"

	"notifier/internal/history"
	"notifier/internal/jobs"
)

// MakeReplay selects the notices of a replay and starts it, unless it is a dry run. Only notices
// finalized before now, by Redis's clock, are selected.
func (e *Engine) MakeReplay(ctx context.Context, r *history.Replay, dry bool) (*jobs.ReplayPlan, error) {
	if err := e.replayable(ctx, dry); err != nil {
		return nil, err
	}

	now, err := e.store.Wire().Now(ctx)
	if err != nil {
		return nil, err
	}

	if r.Asked = r.Until; r.Until.IsZero() || r.Until.After(now) {
		r.Until = now.Truncate(time.Microsecond)
	}

	p, err := jobs.ReplayMaker{DB: e.o.History.DB, Routes: e.o.Routes, Space: e.store.Space()}.Make(ctx, r, dry)
	switch {
	case err != nil || dry:
	case p.Known:
		e.progress(ctx, p.Replay)
	default:
		e.replays.Wake()
	}

	return p, err
}

// Replays returns up to n replays under a prefix, newest first.
func (e *Engine) Replays(ctx context.Context, prefix string, n int) ([]history.Replay, error) {
	list, err := e.o.History.DB.Replays(ctx, prefix, n)
	if err != nil {
		return nil, err
	}

	for i := range list {
		e.progress(ctx, &list[i])
	}

	return list, nil
}

// FindReplays returns the caller's replay with a name, or up to two of other clients.
func (e *Engine) FindReplays(ctx context.Context, q history.ReplayQuery) ([]history.Replay, error) {
	list, err := e.o.History.DB.FindReplays(ctx, q)
	for i := range list {
		e.progress(ctx, &list[i])
	}

	return list, err
}

// progress adds the current results of a replay. The database has them slightly late; Redis drops
// them some time after the end.
func (e *Engine) progress(ctx context.Context, r *history.Replay) {
	if r.State == history.ReplayDone || r.State == history.ReplayFailed || e.known(ctx) != nil {
		return
	}

	sender := jobs.ReplayStore{Store: e.store}
	if counts, err := sender.ReplayCounts(ctx, r.Mark()); err == nil && len(counts) > 0 {
		r.Counts = counts
	}
}

// StopReplay stops a replay; ok is false if it is not running. Notices that are scheduled already,
// up to one second of the replay, are still delivered.
func (e *Engine) StopReplay(ctx context.Context, id string) (ok bool, err error) {
	return e.o.History.DB.StopReplay(ctx, id)
}

// replayable returns wire.ErrMoved during a migration, when a replay would fail at once. A dry run
// is always allowed.
func (e *Engine) replayable(ctx context.Context, dry bool) error {
	if err := e.known(ctx); err != nil {
		return err
	}
	if err := e.store.Whole(); err != nil && !dry {
		return fmt.Errorf("replay: %w", err)
	}

	return nil
}

// ResumeReplay continues a stopped replay; ok is false if it is not stopped.
func (e *Engine) ResumeReplay(ctx context.Context, id string) (ok bool, err error) {
	if err := e.replayable(ctx, false); err != nil {
		return false, err
	}

	if ok, err = e.o.History.DB.ResumeReplay(ctx, id); ok && e.isOpen() {
		e.replays.Wake()
	}

	return ok, err
}

// newDriver creates the driver of replays; nil without a history.
func (e *Engine) newDriver() *jobs.Replayer {
	if e.o.History.DB == nil {
		return nil
	}
	return jobs.NewReplayer(jobs.ReplayerOptions{Journal: e.o.History.DB, Sender: jobs.ReplayStore{Store: e.store}, Routes: e.o.Routes,
		Sealing: e.keyring(), Space: e.store.Space(), Observer: e.o.Metrics, Tracer: e.o.Tracer, Logger: e.o.Logger})
}

// driveReplays drives replays until ctx ends.
func (e *Engine) driveReplays(ctx context.Context) error {
	if e.replays == nil {
		return nil
	}
	return e.replays.Run(ctx)
}
