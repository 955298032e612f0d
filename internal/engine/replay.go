package engine

import (
	"context"
	"fmt"
	"time"

	"notifier/internal/history"
	"notifier/internal/jobs"
)

// Replays sends finalized notices again: see package jobs.
type Replays struct{ e *Engine }

// Replays returns the calls on replays. They need a history.
func (e *Engine) Replays() *Replays { return &Replays{e} }

// Make selects the notices of a replay and starts it, unless it is a dry run. Only notices
// finalized before now, by Redis's clock, are selected.
func (r *Replays) Make(ctx context.Context, x *history.Replay, dry bool) (*jobs.ReplayPlan, error) {
	if err := r.replayable(ctx, dry); err != nil {
		return nil, err
	}

	now, err := r.e.store.Wire().Now(ctx)
	if err != nil {
		return nil, err
	}

	if x.Asked = x.Until; x.Until.IsZero() || x.Until.After(now) {
		x.Until = now.Truncate(time.Microsecond)
	}

	p, err := jobs.ReplayMaker{DB: r.e.o.History.DB, Routes: r.e.o.Routes, Space: r.e.store.Space()}.Make(ctx, x, dry)
	switch {
	case err != nil || dry:
	case p.Known:
		r.progress(ctx, p.Replay)
	default:
		r.e.replays.Wake()
	}

	return p, err
}

// List returns up to n replays under a prefix, newest first.
func (r *Replays) List(ctx context.Context, prefix string, n int) ([]history.Replay, error) {
	list, err := r.e.o.History.DB.Replays(ctx, prefix, n)
	if err != nil {
		return nil, err
	}

	for i := range list {
		r.progress(ctx, &list[i])
	}

	return list, nil
}

// Find returns the caller's replay with a name, or up to two of other clients.
func (r *Replays) Find(ctx context.Context, q history.ReplayQuery) ([]history.Replay, error) {
	list, err := r.e.o.History.DB.FindReplays(ctx, q)
	for i := range list {
		r.progress(ctx, &list[i])
	}

	return list, err
}

// progress adds the current results of a replay. The database has them slightly late; Redis drops
// them some time after the end.
func (r *Replays) progress(ctx context.Context, x *history.Replay) {
	if x.State == history.ReplayDone || x.State == history.ReplayFailed || r.e.known(ctx) != nil {
		return
	}

	sender := jobs.ReplayStore{Store: r.e.store}
	if counts, err := sender.ReplayCounts(ctx, x.Mark()); err == nil && len(counts) > 0 {
		x.Counts = counts
	}
}

// Stop stops a replay; ok is false if it is not running. Notices that are scheduled already,
// up to one second of the replay, are still delivered.
func (r *Replays) Stop(ctx context.Context, id string) (ok bool, err error) {
	return r.e.o.History.DB.StopReplay(ctx, id)
}

// replayable returns wire.ErrMoved during a migration, when a replay would fail at once. A dry run
// is always allowed.
func (r *Replays) replayable(ctx context.Context, dry bool) error {
	if err := r.e.known(ctx); err != nil {
		return err
	}
	if err := r.e.store.Whole(); err != nil && !dry {
		return fmt.Errorf("replay: %w", err)
	}

	return nil
}

// Resume continues a stopped replay; ok is false if it is not stopped.
func (r *Replays) Resume(ctx context.Context, id string) (ok bool, err error) {
	if err := r.replayable(ctx, false); err != nil {
		return false, err
	}

	if ok, err = r.e.o.History.DB.ResumeReplay(ctx, id); ok && r.e.isOpen() {
		r.e.replays.Wake()
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
