package engine

import (
	"context"
	"errors"

	"notifier/internal/notice"
	"notifier/internal/store"
	"notifier/internal/wire"
)

// readdressTries is how often Readdress starts again after a concurrent change of the notice.
const readdressTries = 5

// Readdress changes the url and the headers of a scheduled or dead notice to those in a. If when is not nil, it also
// sets the due time, which only a scheduled notice allows. If c.Done is false, nothing was changed, normally because
// the state c.Before does not allow it. was is the notice before the change. The error wraps [notice.ErrInvalid] if the
// notice's route does not allow the new url or headers.
func (e *Engine) Readdress(ctx context.Context, key string, a notice.Address, when *store.When) (c store.Change, was *notice.Notice,
	err error) {
	ctx, cancel := e.bounded(ctx)
	defer cancel()
	to, err := e.route(ctx, key)
	if err != nil {
		return c, nil, err
	}
	if err := e.adopter.Follow(ctx, key); err != nil {
		return c, nil, err
	}

	var lost error // of the last try
	for range readdressTries {
		f, err := e.store.Find(ctx, to.Prefix, key)
		if err != nil {
			return c, nil, err
		}
		// The state does not allow the change, or the record cannot be read: then Raw is not nil.
		if c = (store.Change{Found: f, Before: f.State}); f.State != notice.Scheduled && (f.State != notice.Dead || when != nil) || f.Raw != nil {
			return c, f.Notice, nil
		}

		n, err := e.withAddress(ctx, to, &f, a)
		if err != nil {
			return c, nil, err
		}

		c, err = e.store.Readdress(ctx, f, n, when)
		if lost = nil; errors.Is(err, store.ErrNoDataKey) { // Redis has lost the key
			e.vault.Forget(f.Shard)
			lost = err
			continue
		}

		if err != nil && !errors.Is(err, wire.ErrUnconfirmed) {
			return c, nil, err
		}

		if c.Done {
			e.readdressed(ctx, &c)
			return c, f.Notice, err
		}
	}

	if lost != nil {
		return c, nil, lost
	}

	c.Before = notice.Claimed // the notice kept changing, as it does with each attempt
	return c, nil, nil
}

// readdressed completes the result of a change.
func (e *Engine) readdressed(ctx context.Context, c *store.Change) {
	if c.State == notice.Scheduled && !c.Due.After(e.Now()) {
		e.hint(&c.Found)
	}
	_ = e.store.AddWaits(ctx, &c.Found) // the change is done: without an answer the notice is shown as postponed
}
