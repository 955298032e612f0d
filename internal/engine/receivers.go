package engine

import (
	"context"
	"slices"
	"time"

	"go.uber.org/zap"

	"notifier/internal/pace"
	"notifier/internal/receivers"
)

const (
	// healthEvery is how often changes of receiver health are written. syncEvery is how often the
	// failing receivers of other instances are read.
	healthEvery = time.Second
	syncEvery   = 10 * time.Second
	// healthLast is how long the last write may take, which has all changes.
	healthLast = 3 * time.Second
	// scanEvery is the interval at which an instance with failing receivers may count the notices that wait for them.
	// One instance of all is preferred and counts each time. The preferred instance may not call these receivers. So
	// any other instance counts the routes that were not counted for scanLate.
	scanEvery = 3 * time.Second
	scanLate  = 2 * time.Minute
)

// receiverHealth maintains the health of receivers: see package receivers.
type receiverHealth struct {
	e       *Engine
	tracker *receivers.Tracker
}

func newReceivers(e *Engine) *receiverHealth {
	t := receivers.NewTracker()
	t.Logger = e.o.Logger
	return &receiverHealth{e: e, tracker: t}
}

func (r *receiverHealth) store() *receivers.HealthStore {
	return &receivers.HealthStore{Wire: r.e.store.Wire()}
}

// publish writes changes until ctx ends, and all that are left then.
func (r *receiverHealth) publish(ctx context.Context) error {
	sync := time.Now().Add(syncEvery)
	for pace.Wait(ctx, healthEvery) {
		due := time.Now().After(sync)
		r.write(context.WithoutCancel(ctx), healthEvery, func(ctx context.Context) error {
			err := r.store().Write(ctx, r.tracker)
			if err == nil && due {
				err = r.store().Sync(ctx, r.tracker)
			}

			return err
		})
		if due {
			sync = time.Now().Add(syncEvery)
		}
	}

	r.write(context.WithoutCancel(ctx), healthLast, func(ctx context.Context) error { return r.store().WriteAll(ctx, r.tracker) })
	return nil
}

// write writes once, within a time. Changes of a failed write are included in the next one.
func (r *receiverHealth) write(ctx context.Context, within time.Duration, do func(ctx context.Context) error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	if r.tracker.Changed() && r.e.store.Layout.Known(ctx) != nil { // another Redis answers, with another layout
		return
	}

	if err := do(ctx); err != nil {
		r.e.o.Logger.Debug("cannot write the health of receivers, retrying", zap.Error(err))
	}
}

// scan counts, until ctx ends, the notices that wait for failing receivers. Only one instance does
// so.
func (r *receiverHealth) scan(ctx context.Context) error {
	s := &receivers.Scanner{Store: r.store(), Notices: r}
	for pace.Wait(ctx, scanEvery) {
		if !r.tracker.Failing() {
			continue
		}

		list, err := r.read(ctx)
		if err == nil {
			err = s.Scan(ctx, r.mine(list))
		}

		if err != nil && ctx.Err() == nil {
			r.e.o.Logger.Debug("cannot count the notices that wait for failing receivers, retrying", zap.Error(err))
		}
	}

	return nil
}

// mine returns the routes whose waiting notices this instance counts.
func (r *receiverHealth) mine(list []receivers.RouteHealth) []receivers.RouteHealth {
	id := r.e.fleet.View().Preferred("health of receivers")
	if id == "" || id == r.e.Self() {
		return list
	}

	return slices.DeleteFunc(list, func(h receivers.RouteHealth) bool { return r.e.Now().Sub(h.Counted) < scanLate })
}

// Pending implements receivers.Notices.
func (r *receiverHealth) Pending(ctx context.Context, prefix, cursor string) (list []receivers.Waiter, read int, next string, err error) {
	if err := r.e.known(ctx); err != nil {
		return nil, 0, "", err
	}

	page, err := r.e.store.Pending(ctx, prefix, cursor)
	if err != nil {
		return nil, 0, "", err
	}

	rt := r.e.o.Routes.Prefix(prefix)
	for i := range page.Items {
		f := &page.Items[i]
		if rt == nil {
			break
		}

		list = append(list, receivers.Waiter{Receiver: receivers.ReceiverOf(rt, f.URL), Next: f.NextAttemptAt(), Failed: f.AttemptsMade > 0})
	}

	return list, page.Looked, page.Cursor, nil
}

func (r *receiverHealth) read(ctx context.Context) ([]receivers.RouteHealth, error) {
	var prefixes []string
	for _, rt := range r.e.o.Routes.All() {
		prefixes = append(prefixes, rt.Prefix)
	}

	return r.store().Read(ctx, prefixes)
}

// failingLong returns a function for the number of receivers of a prefix that have failed for long;
// -1 if unknown.
func (r *receiverHealth) failingLong(ctx context.Context) func(prefix string) int {
	list, err := r.read(ctx)
	return func(prefix string) int {
		if err != nil {
			return -1
		}

		for i := range list {
			if list[i].Prefix == prefix {
				return list[i].Failing(r.e.Now().Add(-receivers.FailingLong))
			}
		}

		return 0
	}
}

// Health returns the health of the receivers of each route.
func (e *Engine) Health(ctx context.Context) ([]receivers.RouteHealth, error) {
	if err := e.known(ctx); err != nil {
		return nil, err
	}
	return e.receivers.read(ctx)
}

// ReceiverDay returns the attempts of a receiver in the last day.
func (e *Engine) ReceiverDay(ctx context.Context, prefix, receiver string) (receivers.Day, error) {
	if err := e.known(ctx); err != nil {
		return receivers.Day{}, err
	}
	return e.receivers.store().Day(ctx, prefix, receiver)
}
