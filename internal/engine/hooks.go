package engine

import (
	"context"
	"slices"

	"notifier/internal/route"
	"notifier/internal/wire"
)

// hookBacklog returns how many deaths have no hook's notice yet, without the missing shards; -1 if no
// route has a hook.
func (e *Engine) hookBacklog(ctx context.Context, missing []wire.Lost) (n int64, err error) {
	if !slices.ContainsFunc(e.o.Routes.All(), func(r *route.Route) bool { return r.OnDead != nil }) {
		return -1, nil
	}

	for shard := range e.store.Space().Places() {
		if slices.ContainsFunc(missing, func(l wire.Lost) bool { return slices.Contains(l.Shards, shard) }) {
			continue
		}

		some, err := e.store.DeathsWaiting(ctx, shard)
		if err != nil {
			return 0, err
		}

		n += some
	}

	return n, nil
}
