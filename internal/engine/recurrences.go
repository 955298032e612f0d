package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"notifier/internal/notice"
	"notifier/internal/recur"
	"notifier/internal/route"
	"notifier/internal/store"
)

// Recurrences defines recurring notices: see package recur.
type Recurrences struct{ e *Engine }

// Recurrences returns the calls on recurring notices.
func (e *Engine) Recurrences() *Recurrences { return &Recurrences{e} }

// defineTries is how often a call repeats a write because the state of the definition has changed since it was read.
const defineTries = 10

// Check returns all faults of a definition, also those that its route finds. The error is wire.ErrUnavailable or
// store.ErrUnrouted.
func (r *Recurrences) Check(ctx context.Context, d *recur.Definition) ([]recur.Fault, error) {
	faults := d.Check()
	if recur.CheckKey(d.Key) != nil {
		return faults, nil
	}

	to, err := r.e.route(ctx, d.Key)
	if err != nil {
		return faults, err
	}

	add := func(field, text string) {
		faults = append(faults, recur.Fault{Field: field, Err: fmt.Errorf("%w: %s", notice.ErrInvalid, text)})
	}
	if d.Overlap == recur.OverlapAllow && to.Order != route.OrderNone {
		add("overlap", fmt.Sprintf("route %s delivers one occurrence after the other (ORDER=id); want wait or skip", to.Name))
	}

	if d.Overlap == recur.OverlapWait && to.Order == route.OrderNone {
		add("overlap", fmt.Sprintf("wait needs a route with ORDER=id, which %s is not; want allow or skip", to.Name))
	}

	if d.Content.Ladder.Repeats() && d.Content.ExpiresAfter == 0 && to.Expires == 0 {
		add("retry", "repeats its last step, so the notice needs expires")
	}

	for _, m := range to.Misfits(&d.Content) {
		add(m.Field, m.Text)
	}

	if !d.Until.IsZero() && len(faults) == 0 {
		over, err := r.over(ctx, d)
		if err != nil {
			return faults, err
		}

		if over {
			add("until", "is before the next tick, so there would be no notice; want a later time, or leave it out")
		}
	}

	return faults, nil
}

// over reports whether a definition has no more ticks, although it is new: it does not come from another service, and does not repeat
// the end of the stored one.
func (r *Recurrences) over(ctx context.Context, d *recur.Definition) (bool, error) {
	now, err := r.e.store.Wire().Now(ctx)
	if err != nil || d.MinNumber > 0 {
		return false, err
	}

	next, err := d.Upcoming(now, 1)
	if err != nil || len(next) > 0 {
		return false, err
	}

	was, err := r.Get(ctx, d.Key)
	if errors.Is(err, store.ErrNotDefined) {
		return true, nil
	}

	return was.Until.UnixMilli() != d.Until.UnixMilli(), err
}

// Put stores a definition, in place of the one of the same key if there is one, and seals its content if the route seals. created
// reports whether there was none. An occurrence that was stored ahead and has not begun is withdrawn, and its tick gets one of the new
// definition. The error may be a vault.ForgottenError, or wrap vault.ErrSealed.
func (r *Recurrences) Put(ctx context.Context, d recur.Definition) (x recur.Recurrence, created bool, err error) {
	faults, err := r.Check(ctx, &d)
	if err != nil {
		return x, false, err
	}
	if len(faults) > 0 {
		return x, false, faults[0]
	}

	x, err = r.change(ctx, d.Key, func(ctx context.Context, to *route.Route, was *recur.Recurrence) (*recur.Definition, error) {
		created = was.Key == ""
		next := d
		return &next, r.seal(ctx, to, was, &next)
	})
	return x, created, err
}

// Get returns a definition with its state. The error is store.ErrNotDefined if there is none.
func (r *Recurrences) Get(ctx context.Context, key string) (recur.Recurrence, error) {
	ctx, cancel := r.e.bounded(ctx)
	defer cancel()
	if err := r.e.known(ctx); err != nil {
		return recur.Recurrence{}, err
	}

	return r.store().Get(ctx, key)
}

// List returns up to n definitions under a prefix ("" = all) in the order of their keys, those after the key after. more reports
// whether others follow.
func (r *Recurrences) List(ctx context.Context, prefix, after string, n int) (list []recur.Recurrence, more bool, err error) {
	if err := r.e.known(ctx); err != nil {
		return nil, false, err
	}

	return r.store().List(ctx, r.e.prefixes(), prefix, after, n)
}

// Delete deletes a definition, and withdraws an occurrence that has not begun. Others stay. The numbers go on if the key gets a
// definition again.
func (r *Recurrences) Delete(ctx context.Context, key string) error {
	_, err := r.existing(ctx, key, func(*recur.Definition) *recur.Definition { return nil })
	return err
}

// Pause stops a definition and withdraws an occurrence that has not begun. Nothing changes if it is paused.
func (r *Recurrences) Pause(ctx context.Context, key string) (recur.Recurrence, error) {
	return r.existing(ctx, key, func(d *recur.Definition) *recur.Definition {
		d.Paused = true
		return d
	})
}

// Resume continues a paused definition. Its policy decides on the ticks since the pause.
func (r *Recurrences) Resume(ctx context.Context, key string) (recur.Recurrence, error) {
	return r.existing(ctx, key, func(d *recur.Definition) *recur.Definition {
		d.Paused = false
		return d
	})
}

// existing changes a definition that must exist.
func (r *Recurrences) existing(ctx context.Context, key string, edit func(*recur.Definition) *recur.Definition) (recur.Recurrence, error) {
	return r.change(ctx, key, func(_ context.Context, _ *route.Route, was *recur.Recurrence) (*recur.Definition, error) {
		if was.Key == "" {
			return nil, fmt.Errorf("%s: %w", key, store.ErrNotDefined)
		}

		d := was.Definition
		return edit(&d), nil
	})
}

// edit returns the definition that takes the place of a stored one; nil deletes it.
type edit func(ctx context.Context, to *route.Route, was *recur.Recurrence) (*recur.Definition, error)

// change reads a definition and writes the one that edit returns for it. It reads and writes again if the state has changed in between,
// or if Redis has lost the key that seals the content.
func (r *Recurrences) change(ctx context.Context, key string, next edit) (recur.Recurrence, error) {
	ctx, cancel := r.e.bounded(ctx)
	defer cancel()
	to, err := r.e.route(ctx, key)
	if err != nil {
		return recur.Recurrence{}, err
	}

	for range defineTries {
		was, err := r.store().Get(ctx, key)
		if err != nil && !errors.Is(err, store.ErrNotDefined) {
			return was, err
		}

		d, err := next(ctx, to, &was)
		if err != nil {
			return was, err
		}
		if d != nil && was.Same(d) {
			return was, nil
		}

		x, err := r.define(ctx, to, &was, d, key)
		if errors.Is(err, store.ErrNoDataKey) {
			r.e.vault.Forget(r.e.store.Space().Shard(key))
			continue
		}

		if !errors.Is(err, store.ErrOtherState) && !errors.Is(err, store.ErrReplaced) {
			return x, err
		}
	}

	return recur.Recurrence{}, fmt.Errorf("%s: %w", key, store.ErrOtherState)
}

// define writes a definition in place of the one that was read.
func (r *Recurrences) define(ctx context.Context, to *route.Route, was *recur.Recurrence, d *recur.Definition, key string) (
	recur.Recurrence, error) {
	now, err := r.e.store.Wire().Now(ctx)
	if err != nil {
		return recur.Recurrence{}, err
	}

	w := store.Define{Was: *was, Definition: d}
	if d == nil {
		w.State = was.State.Deleted()
		w.Withdrawn = w.State
	} else {
		w.State, w.Withdrawn = d.Redefined(was, now)
		if w.Next, err = nextOf(to, d, w.State, now); err == nil {
			w.WithdrawnNext, err = nextOf(to, d, w.Withdrawn, now)
		}
	}

	if err != nil {
		return recur.Recurrence{}, err
	}

	state, err := r.store().Define(ctx, to.Prefix, key, w)
	x := recur.Recurrence{State: state, Head: state.Encode()}
	if d != nil {
		x.Definition = *d
	}

	return x, err
}

// nextOf returns when to store the next occurrence of a definition.
func nextOf(to *route.Route, d *recur.Definition, s recur.State, now time.Time) (time.Time, error) {
	x := withExpiry(to, *d)
	return x.Next(s, now)
}

// withExpiry returns a definition with the expiry of its route if it has none.
func withExpiry(to *route.Route, d recur.Definition) recur.Definition {
	if d.Content.ExpiresAfter == 0 {
		d.Content.ExpiresAfter = to.Expires
	}
	return d
}

func (r *Recurrences) store() *store.Recurrences { return store.NewRecurrences(r.e.store) }
