package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"notifier/internal/keys"
	"notifier/internal/recur"
	"notifier/internal/route"
	"notifier/internal/store"
	"notifier/internal/wire"
)

// tickPause is how long a partition whose occurrences cannot be stored now is left alone: its route is paused or Redis has failed.
const tickPause = time.Second

// unreadPause is likewise for definitions that this instance cannot read. Others are still stored ahead of their ticks.
const unreadPause = recur.Ahead - time.Second

// ticker stores the next occurrences of recurring notices. It implements [reconcile.Ticker].
type ticker struct{ e *Engine }

// Tick implements [reconcile.Ticker].
func (t ticker) Tick(ctx context.Context, p keys.Partition, now time.Time) time.Duration {
	to := t.e.o.Routes.Prefix(p.Prefix)
	if to == nil || t.e.dispatch.Paused(p) {
		return tickPause
	}

	all := store.NewRecurrences(t.e.store)
	list, err := all.Due(ctx, p, now)
	steps := t.plan(to, list, now)
	switch {
	case !t.e.store.Layout.HasEvents(p.Shard): // an old shard
		err = all.Leave(ctx, p.Shard)
	case len(steps) > 0:
		var out []store.Ticked
		out, err = t.make(ctx, all, to, p, steps)
		err = errors.Join(err, t.withoutKeys(ctx, all, p, steps, out))
	}

	if errors.Is(err, wire.ErrMoved) || errors.Is(err, store.ErrReplaced) {
		return tickPause // the other side of a migration, or another shard, stores them
	}

	if err != nil && !errors.Is(err, wire.ErrUnconfirmed) {
		t.e.o.Logger.Warn("cannot store the next occurrences of recurring notices, retrying", zap.String("prefix", p.Prefix),
			zap.Int("shard", p.Shard), zap.Error(err))
		return tickPause
	}

	if len(list) > 0 && len(steps) == 0 {
		return unreadPause
	}

	return 0
}

// plan returns the next steps of definitions. Those that this instance cannot read are left to other instances.
func (t ticker) plan(to *route.Route, list []recur.Recurrence, now time.Time) []store.Tick {
	steps := make([]store.Tick, 0, len(list))
	for _, x := range list {
		s := store.Tick{Of: x, Skip: x.Overlap == recur.OverlapSkip}
		s.Of.Definition = withExpiry(to, x.Definition)
		step, err := s.Of.Plan(x.State, now)
		if err != nil { // of another version, or its zone is not known here
			t.e.o.Logger.Error("cannot read the definition of a recurring notice, its occurrences are left to other instances",
				zap.String("key", x.Key), zap.Error(err))
			continue
		}

		if s.Step = step; step.At.After(now) { // its ticks have changed
			s.Step = recur.Step{At: step.At}
		}

		steps = append(steps, s)
	}

	return steps
}

// make makes steps, and passes on occurrences that are due at once.
func (t ticker) make(ctx context.Context, all *store.Recurrences, to *route.Route, p keys.Partition, steps []store.Tick) (
	[]store.Ticked, error) {
	out, err := all.Tick(ctx, p, steps)
	n := 0
	for i := range out {
		if r := &out[i]; r.Created {
			n++
			if !r.Due.After(r.Made.Time()) {
				t.e.dispatch.Hint(to, r.Key)
			}
		}
	}

	if n > 0 {
		t.e.o.Metrics.Scheduled(to.Name, n)
	}

	return out, err
}

// RunNow stores an occurrence that is due at once, also of a paused definition. Its tick is the time of the call, and the next ticks
// stay as they are. It counts neither for Times nor as one of the ticks. The error may be a vault.ForgottenError, or wrap
// vault.ErrUnknownKey: there is no key for the content.
func (r *Recurrences) RunNow(ctx context.Context, key string) (store.Reply, error) {
	ctx, cancel := r.e.bounded(ctx)
	defer cancel()
	to, err := r.e.route(ctx, key)
	if err != nil {
		return store.Reply{}, err
	}

	for range defineTries {
		reply, done, err := r.run(ctx, to, key)
		if done || err != nil {
			return reply, err
		}
	}

	return store.Reply{}, fmt.Errorf("%s: %w", key, store.ErrOtherState)
}

// run is one try of RunNow. done is false if the definition has changed, or its data key was in another shard.
func (r *Recurrences) run(ctx context.Context, to *route.Route, key string) (reply store.Reply, done bool, err error) {
	x, err := r.store().Get(ctx, key)
	if err != nil {
		return reply, false, err
	}

	now, err := r.e.store.Wire().Now(ctx)
	if err != nil {
		return reply, false, err
	}

	x.Definition = withExpiry(to, x.Definition)
	p := r.e.store.Space().Partition(to.Prefix, key)
	out, err := ticker{r.e}.make(ctx, r.store(), to, p, []store.Tick{{Of: x, Step: x.State.RunNow(now), Keep: true}})
	switch {
	case errors.Is(err, store.ErrReplaced): // the definition moves to another shard
		return reply, false, nil
	case len(out) == 0:
		return reply, true, err
	case out[0].NoDataKey:
		return reply, false, r.e.vault.Obtain(ctx, p.Shard, x.Content.Sealed)
	}

	return out[0].Reply, !out[0].Stale && !out[0].Occupied, err
}
