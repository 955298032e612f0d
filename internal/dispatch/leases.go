package dispatch

import (
	"context"
	"errors"

	"notifier/internal/route"
)

// ErrLeaseLost is the cancellation cause of a worker's handler whose claim other instances may have reclaimed, because
// they have declared this instance dead.
var ErrLeaseLost = errors.New("the lease is lost: other instances have declared this one dead")

// lease is the claim of a running handler of a worker. Callbacks have none and run on: their receivers have got them already.
type lease struct {
	token string
	lose  context.CancelCauseFunc
}

// leased returns the context of a handler. It ends with ErrLeaseLost when the claim with that token is lost. The caller
// calls end after the handler.
func (h *inFlight) leased(ctx context.Context, r *route.Route, token string) (_ context.Context, end func()) {
	if r.Target.Kind != route.KindWorker {
		return ctx, func() {}
	}

	ctx, lose := context.WithCancelCause(ctx)
	l := &lease{token, lose}
	h.mu.Lock()
	h.leases[l] = struct{}{}
	h.mu.Unlock()
	if h.fleet.Lost(token) { // since the attempt began, before it was in the list
		lose(ErrLeaseLost)
	}

	return ctx, func() {
		h.mu.Lock()
		delete(h.leases, l)
		h.mu.Unlock()
		lose(nil)
	}
}

// CheckLeases ends the contexts of the handlers whose claims are lost. It must be called after the fleet's id changed.
func (d *Dispatcher) CheckLeases() {
	for _, q := range d.queues {
		q.inFlight.checkLeases()
	}
}

func (h *inFlight) checkLeases() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for l := range h.leases {
		if h.fleet.Lost(l.token) {
			l.lose(ErrLeaseLost)
		}
	}
}
