package enginetest

import (
	"context"

	"notifier/internal/engine"
	"notifier/internal/recur"
	"notifier/internal/store"
)

// Recurrences are those of the engine, with the faults that a test asks for.
type Recurrences struct {
	*engine.Recurrences
	e *Engine
}

// Recurrences returns the calls on recurring notices.
func (e *Engine) Recurrences() *Recurrences { return &Recurrences{e.Engine.Recurrences(), e} }

// Get returns a definition.
func (r *Recurrences) Get(ctx context.Context, key string) (recur.Recurrence, error) {
	return attempt(r.e, func() (recur.Recurrence, error) { return r.Recurrences.Get(ctx, key) }, nil)
}

// List returns definitions.
func (r *Recurrences) List(ctx context.Context, prefix, after string, n int) (list []recur.Recurrence, more bool, err error) {
	list, err = attempt(r.e, func() (l []recur.Recurrence, err error) {
		l, more, err = r.Recurrences.List(ctx, prefix, after, n)
		return l, err
	}, nil)
	return list, more, err
}

// Put stores a definition.
func (r *Recurrences) Put(ctx context.Context, d recur.Definition) (x recur.Recurrence, created bool, err error) {
	err = r.e.turn(1, func() error {
		x, created, err = r.Recurrences.Put(ctx, d)
		return err
	})
	return x, created, err
}

// Delete deletes a definition.
func (r *Recurrences) Delete(ctx context.Context, key string) error {
	return r.e.turn(1, func() error { return r.Recurrences.Delete(ctx, key) })
}

// Pause pauses a definition.
func (r *Recurrences) Pause(ctx context.Context, key string) (recur.Recurrence, error) {
	return attempt(r.e, func() (recur.Recurrence, error) { return r.Recurrences.Pause(ctx, key) }, one)
}

// Resume resumes a definition.
func (r *Recurrences) Resume(ctx context.Context, key string) (recur.Recurrence, error) {
	return attempt(r.e, func() (recur.Recurrence, error) { return r.Recurrences.Resume(ctx, key) }, one)
}

func one(recur.Recurrence) int { return 1 }

// RunNow stores an occurrence that is due now.
func (r *Recurrences) RunNow(ctx context.Context, key string) (store.Reply, error) {
	return attempt(r.e, func() (store.Reply, error) { return r.Recurrences.RunNow(ctx, key) }, func(store.Reply) int { return 1 })
}
