package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"go.uber.org/zap"

	"notifier/internal/fleet"
	"notifier/internal/reconcile"
	"notifier/internal/route"
	"notifier/internal/store"
	"notifier/internal/wire"
)

// Recorded prefixes: see store/recorded.go.

// RecordedChanged implements [store.Watcher].
func (w watcher) RecordedChanged(prefixes []string) {
	w.o.Routes.SetRecorded(prefixes)
	w.janitor.Misplaced()
	w.o.Logger.Info("the prefixes that are recorded for workers have changed", zap.Strings("prefixes", prefixes))
	for _, r := range w.o.Routes.All() {
		if slices.Contains(prefixes, r.Prefix) {
			w.o.Logger.Error("the prefix of a route is recorded for workers, delivering none of its notices", zap.String("route", r.Name),
				zap.String("prefix", r.Prefix))
		}
	}
}

// isForWorkers reports whether a claimed notice is for workers, although it is stored under a route of this instance: it
// was stored before its prefix was recorded, or by a script of a producer. The janitor moves it.
func (e *Engine) isForWorkers(r *route.Route, key string) bool {
	if !e.o.Routes.IsForWorkers(r, key) {
		return false
	}

	e.janitor.Misplaced()
	return true
}

// handles returns the prefixes that handlers in this program serve.
func (e *Engine) handles() (prefixes []string) {
	for _, r := range e.o.Routes.All() {
		if r.Target.Kind == route.KindWorker {
			prefixes = append(prefixes, r.Prefix)
		}
	}

	return prefixes
}

// compareHandlers logs each prefix of a handler when another instance begins to have other settings for it.
func (e *Engine) compareHandlers(v *fleet.View) {
	unlike := map[string]bool{}
	for _, r := range e.o.Routes.All() {
		if r.Target.Kind != route.KindWorker || v.SameConfig(r.Name) {
			continue
		}

		if unlike[r.Prefix] = true; !e.unlike[r.Prefix] {
			e.o.Logger.Warn("another instance has other retry delays or limits for the prefix of a handler, each applies its own",
				zap.String("prefix", r.Prefix))
		}
	}

	e.unlike = unlike
}

// checkHandled returns an error if an alive instance has a prefix of a handler of this program with another target, or
// does not follow recorded prefixes. Nothing is recorded then.
func (e *Engine) checkHandled(ctx context.Context) error {
	handles := e.handles()
	if len(handles) == 0 {
		return nil
	}

	list, err := fleet.List(ctx, e.heartbeats())
	if err != nil {
		return err
	}

	var wrong []error
	for i := range list {
		if x := &list[i]; x.State != fleet.Unresponsive && x.Label != "" && !x.FollowsRecorded {
			wrong = append(wrong, fmt.Errorf("%w: instance %s has version %s, which does not know workers; update it first", ErrConfig, x.Label,
				x.Version))
		}
	}

	served, err := e.heartbeats().Serving(ctx, fleet.StaleAfter)
	if err != nil {
		return err
	}

	for _, p := range handles {
		if fleet.OtherTarget(served, p) {
			wrong = append(wrong, fmt.Errorf("%w: prefix %s: a running instance has a route with this prefix and another target; "+
				"remove that route, or choose another prefix", ErrConfig, p))
		}
	}

	return errors.Join(wrong...)
}

// Release ends the record of a prefix, so that its notices move to the route that matches their keys. It returns an error
// that wraps store.ErrHandled while a worker handles the prefix, and store.ErrNotRecorded if it is not recorded.
func (e *Engine) Release(ctx context.Context, prefix string) error {
	if err := e.known(ctx); err != nil {
		return err
	}

	list, err := e.heartbeats().Workers(ctx, []string{prefix})
	if err != nil {
		return err
	}
	if list[0].Workers > 0 {
		return fmt.Errorf("%s: %w", prefix, store.ErrHandled)
	}

	if err := e.store.Layout.Release(ctx, prefix); err != nil {
		return err
	}

	_ = e.heartbeats().Forget(ctx, prefix) // what remains is overwritten when a worker records the prefix again
	return nil
}

// Recorded returns the prefixes that are recorded for workers, sorted, with the number of workers that handle each. In a
// cluster, if the node that stores the workers does not answer, it returns the known prefixes with an unknown number.
func (e *Engine) Recorded(ctx context.Context) ([]fleet.Recorded, error) {
	if err := e.known(ctx); err != nil {
		return nil, err
	}

	var list []fleet.Recorded
	err := e.store.Layout.Known(ctx) // a worker may have recorded a prefix since the last call
	if err == nil {
		list, err = e.heartbeats().Workers(ctx, e.store.Layout.Recorded())
	}

	if e.o.Conn.Masters == nil || !errors.Is(err, wire.ErrUnavailable) {
		return list, err
	}

	for _, p := range e.store.Layout.Recorded() {
		list = append(list, fleet.Recorded{Prefix: p, Workers: -1})
	}

	return list, nil
}

// unhandled counts the recorded prefixes with pending notices that no running worker handles; -1 = unknown.
func (e *Engine) unhandled(ctx context.Context, counts []store.Counts) (n int) {
	list, err := e.Recorded(ctx)
	if err != nil {
		return -1
	}

	for _, x := range list {
		if x.Workers < 0 {
			return -1
		}
	}

	for _, c := range counts {
		if _, ok := fleet.Unhandled(list, c.Prefix); ok && c.Pending > 0 {
			n++
		}
	}

	return n
}

// orderRoutes stores which routes are ordered, before this instance schedules or claims their notices. In
// a cluster, or with a full Redis, the janitor repeats it.
func (e *Engine) orderRoutes(ctx context.Context) error {
	var members []string
	for _, r := range e.o.Routes.All() {
		members = append(members, reconcile.OrderedMembers(r)...)
	}

	err := e.store.Layout.AddOrdered(ctx, members)
	if errors.Is(err, wire.ErrFull) || e.o.Conn.Masters != nil && errors.Is(err, wire.ErrUnavailable) {
		return nil
	}

	return err
}
