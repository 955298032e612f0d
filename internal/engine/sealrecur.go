package engine

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"notifier/internal/keys"
	"notifier/internal/recur"
	"notifier/internal/route"
	"notifier/internal/store"
	"notifier/internal/vault"
)

// The content of a recurring notice is sealed once, when its definition is stored. Its occurrences have the same text, so that any
// instance stores them, also one without service keys. An occurrence is stored only while Redis has the data key.

// lostPause is how long a definition is left alone whose data key Redis has lost.
const lostPause = time.Minute

// seal seals the content of a new definition if its route seals. The stored text stays if it opens and has the same content.
func (r *Recurrences) seal(ctx context.Context, to *route.Route, was *recur.Recurrence, d *recur.Definition) error {
	if to.Seal == "" {
		return nil
	}

	of, err := to.SealSubject(d.Content.Audience, d.Key)
	if err != nil {
		return err
	}

	shard := r.e.store.Space().Shard(d.Key)
	if err := r.e.vault.SealRecurring(ctx, shard, of, d.Key, &d.Content); err != nil || was.Content.Same != d.Content.Same {
		return err
	}

	if _, err := r.e.vault.Open(ctx, shard, d.Key, &was.Content); err == nil {
		d.Content.Sealed = was.Content.Sealed
	}

	return nil
}

// Open returns a recurring notice with its content opened, for a caller who may read it. A content that this instance cannot open stays
// sealed. forgotten is when its subject was forgotten; zero = it was not.
func (r *Recurrences) Open(ctx context.Context, x recur.Recurrence) (opened recur.Recurrence, forgotten time.Time) {
	if x.Content.Sealed == "" {
		return x, time.Time{}
	}

	ctx, cancel := r.e.bounded(ctx)
	defer cancel()
	c, err := r.e.vault.Open(ctx, r.e.store.Space().Shard(x.Key), x.Key, &x.Content)
	if forgotten = vault.ForgottenAt(err); !forgotten.IsZero() {
		return x, forgotten
	}

	if err != nil {
		r.e.o.Logger.Warn("cannot open a sealed notice, showing it sealed", zap.String("key", x.Key), zap.Error(err))
		return x, time.Time{}
	}

	x.Content = c
	return x, time.Time{}
}

// Forgotten returns when the subject of a recurring notice was forgotten; zero = it was not. It is for callers who may not read the
// content.
func (r *Recurrences) Forgotten(ctx context.Context, x *recur.Recurrence) time.Time {
	if x.Content.Sealed == "" {
		return time.Time{}
	}

	ctx, cancel := r.e.bounded(ctx)
	defer cancel()
	return vault.ForgottenAt(r.e.vault.CheckForgotten(ctx, r.e.store.Space().Shard(x.Key), x.Content.Sealed))
}

// withoutKeys continues the definitions whose occurrences were not stored because the shard lacks their data keys. A key of another
// shard is brought: the next call stores the occurrence. Of forgotten content, the tick counts as missed.
func (t ticker) withoutKeys(ctx context.Context, all *store.Recurrences, p keys.Partition, steps []store.Tick, out []store.Ticked) error {
	ctx, cancel := t.e.bounded(ctx)
	defer cancel()
	var rest []store.Tick
	for i := range out {
		if !out[i].NoDataKey {
			continue
		}

		x := steps[i]
		err := t.e.vault.Obtain(ctx, p.Shard, x.Of.Content.Sealed)
		switch {
		case err == nil:
			continue
		case !vault.ForgottenAt(err).IsZero():
			x.Forgotten = true
		case !errors.Is(err, vault.ErrSealed): // Redis has failed
			return err
		default:
			x.Step = recur.Step{At: t.e.Now().Add(lostPause)}
			t.e.o.Logger.Warn("cannot store the next occurrence of a recurring notice without its data key, retrying in a minute",
				zap.String("key", x.Of.Key), zap.Error(err))
		}

		rest = append(rest, x)
	}

	if len(rest) == 0 {
		return nil
	}

	_, err := all.Tick(ctx, p, rest)
	return err
}
