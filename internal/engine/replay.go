package engine

import (
	"context"
	"fmt"
	"time"

	"notifier/internal/history"
	"notifier/internal/layout"
	"notifier/internal/replay"
	"notifier/internal/wire"
)

// MakeReplay chooses what a replay sends and begins with it, unless it is a dry
// run. What has ended until now is meant, by Redis's clock.
func (e *Engine) MakeReplay(ctx context.Context, r *history.Replay, dry bool) (*replay.Plan, error) {
	if err := e.replayable(ctx, dry); err != nil {
		return nil, err
	}
	now, err := e.store.Now(ctx)
	if err != nil {
		return nil, err
	}
	if r.Asked = r.Until; r.Until.IsZero() || r.Until.After(now) {
		r.Until = now.Truncate(time.Microsecond)
	}
	p, err := replay.Maker{DB: e.o.History.DB, Routes: e.o.Routes, Space: e.store.Space()}.Make(ctx, r, dry)
	switch {
	case err != nil || dry:
	case p.Known:
		e.progress(ctx, p.Replay)
	default:
		e.replays.Wake()
	}
	return p, err
}

// Replays lists at most n replays, the latest first, of those within a prefix.
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

// FindReplays returns the caller's replay of a name, or at most two of other clients.
func (e *Engine) FindReplays(ctx context.Context, q history.ReplayQuery) ([]history.Replay, error) {
	list, err := e.o.History.DB.FindReplays(ctx, q)
	for i := range list {
		e.progress(ctx, &list[i])
	}
	return list, err
}

// progress counts what came of a replay's items by now: the database knows it a
// moment later, and Redis not any more when it is long over.
func (e *Engine) progress(ctx context.Context, r *history.Replay) {
	if r.State == history.ReplayDone || r.State == history.ReplayFailed || e.known(ctx) != nil {
		return
	}
	if counts, err := e.store.ReplayCounts(ctx, r.Mark()); err == nil && len(counts) > 0 {
		r.Counts = counts
	}
}

// StopReplay stops a replay; ok is false if it does not run. What was scheduled
// already, up to a second of it, still goes out.
func (e *Engine) StopReplay(ctx context.Context, id string) (ok bool, err error) {
	return e.o.History.DB.StopReplay(ctx, id)
}

// replayable is wire.ErrMoved while notices move to another Redis, or from it: a replay
// would fail at once. A dry run sends nothing.
func (e *Engine) replayable(ctx context.Context, dry bool) error {
	if err := e.known(ctx); err != nil {
		return err
	}
	if side := e.store.Side(); !dry && side.State != layout.SideOpen {
		return fmt.Errorf("replay: %w", wire.ErrMoved)
	}
	return nil
}

// ResumeReplay lets a stopped replay go on; ok is false if it is not stopped.
func (e *Engine) ResumeReplay(ctx context.Context, id string) (ok bool, err error) {
	if err := e.replayable(ctx, false); err != nil {
		return false, err
	}
	if ok, err = e.o.History.DB.ResumeReplay(ctx, id); ok && e.isOpen() {
		e.replays.Wake()
	}
	return ok, err
}

// newDriver makes what drives replays; nil without a history.
func (e *Engine) newDriver() *replay.Driver {
	if e.o.History.DB == nil {
		return nil
	}
	return replay.NewDriver(replay.Options{Journal: e.o.History.DB, Sender: e.store, Routes: e.o.Routes, Space: e.store.Space(), Observer: e.o.Metrics,
		Tracer: e.o.Tracer, Logger: e.o.Logger})
}

// driveReplays drives replays until ctx ends.
func (e *Engine) driveReplays(ctx context.Context) error {
	if e.replays == nil {
		return nil
	}
	return e.replays.Run(ctx)
}
