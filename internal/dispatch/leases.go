package dispatch

import (
	"context"
	"errors"
	"sync"

	"notifier/internal/route"
)

// ErrLeaseLost is the cancellation cause of a worker's handler whose claim other instances may have reclaimed, because
// they have declared this instance dead.
var ErrLeaseLost = errors.New("the lease is lost: other instances have declared this one dead")

// leases are the claims of running handlers of workers. Callbacks run on: their receivers have got them already.
type leases struct {
	mu   sync.Mutex
	held map[*lease]struct{}
}

type lease struct {
	token string
	lose  context.CancelCauseFunc
}

// leased returns the context of a handler. It ends with ErrLeaseLost when the claim with that token is lost. The caller
// calls end after the handler.
func (d *Dispatcher) leased(ctx context.Context, r *route.Route, token string) (_ context.Context, end func()) {
	if r.Target.Kind != route.KindWorker {
		return ctx, func() {}
	}

	ctx, lose := context.WithCancelCause(ctx)
	l := &lease{token, lose}
	d.leases.mu.Lock()
	d.leases.held[l] = struct{}{}
	d.leases.mu.Unlock()
	if d.o.Fleet.Lost(token) { // since the attempt began, before it was in the list
		lose(ErrLeaseLost)
	}

	return ctx, func() {
		d.leases.mu.Lock()
		delete(d.leases.held, l)
		d.leases.mu.Unlock()
		lose(nil)
	}
}

// CheckLeases ends the contexts of the handlers whose claims are lost. It must be called after the fleet's id changed.
func (d *Dispatcher) CheckLeases() {
	d.leases.mu.Lock()
	defer d.leases.mu.Unlock()
	for l := range d.leases.held {
		if d.o.Fleet.Lost(l.token) {
			l.lose(ErrLeaseLost)
		}
	}
}
