package reconcile

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"notifier/internal/notice"
	"notifier/internal/receivers"
	"notifier/internal/route"
)

// HealthStore has the health of receivers and their outages: see package receivers.
type HealthStore interface {
	Read(ctx context.Context, prefixes []string) ([]receivers.RouteHealth, error)
	Outages(ctx context.Context, prefix string) (map[string]receivers.Outage, time.Time, error)
	SetOutage(ctx context.Context, prefix, receiver string, old, o *receivers.Outage) (bool, error)
}

// The events of a hook.
const (
	eventDown    = "down"
	eventUp      = "up"
	eventPaused  = "paused"
	eventResumed = "resumed"
)

// downs schedules the notices about receivers: `down` when one has failed for the duration ON_DOWN of its route, and
// `up` when it answers again. If all is true, downs does so for all routes of this instance, otherwise only for those
// that are assigned to this instance ([Trims]).
func (h *Hooks) downs(ctx context.Context, all bool) error {
	if h.o.Health == nil {
		return nil
	}

	var failed []error
	for _, r := range h.o.Routes.All() {
		if r.OnDown > 0 && (all || h.o.Assignment.Tidies(h.o.Space.Partition(r.Prefix, r.Prefix))) {
			failed = append(failed, h.routeDowns(ctx, r), h.routePauses(ctx, r))
		}
	}

	return errors.Join(failed...)
}

// routeDowns reads the outages before the health. So an outage is never compared with health from before it.
func (h *Hooks) routeDowns(ctx context.Context, r *route.Route) error {
	outages, now, err := h.o.Health.Outages(ctx, r.Prefix)
	if err != nil {
		return err
	}

	list, err := h.o.Health.Read(ctx, []string{r.Prefix})
	if err != nil {
		return err
	}

	var failed []error
	known := list[0].Receivers
	for i := range known {
		x := &known[i]
		o, stored := outages[x.Name]
		switch {
		case stored:
			failed = append(failed, h.known(ctx, r, x, o))
		case x.Failing() && now.Sub(x.Since) >= r.OnDown:
			failed = append(failed, h.begin(ctx, r, x))
		}
	}

	for name, o := range outages {
		if !slices.ContainsFunc(known, func(x receivers.Health) bool { return x.Name == name }) {
			_, err := h.o.Health.SetOutage(ctx, r.Prefix, name, &o, nil) // without `up`: not called for 48 hours
			failed = append(failed, err)
		}
	}

	return errors.Join(failed...)
}

// begin stores an outage, and then schedules the notice `down`. So if this instance is killed, another one continues.
// If another instance has already stored the outage, the next pass continues with it.
func (h *Hooks) begin(ctx context.Context, r *route.Route, x *receivers.Health) error {
	o := receivers.NewOutage(x)
	stored, err := h.o.Health.SetOutage(ctx, r.Prefix, x.Name, nil, &o)
	if err != nil || !stored {
		return err
	}

	return h.known(ctx, r, x, o)
}

// known schedules the notices of a stored outage: `down` if that may not have been done, and `up` once the receiver
// has answered.
func (h *Hooks) known(ctx context.Context, r *route.Route, x *receivers.Health, o receivers.Outage) error {
	if !o.Sent {
		if ok, err := h.tell(ctx, r, x, &o, eventDown); err != nil || !ok {
			return err
		}

		sent := o
		sent.Sent = true
		stored, err := h.o.Health.SetOutage(ctx, r.Prefix, x.Name, &o, &sent)
		if err != nil || !stored {
			return err
		}

		o = sent
	}

	if !o.Ended(x) {
		return nil
	}
	if ok, err := h.tell(ctx, r, x, &o, eventUp); err != nil || !ok {
		return err
	}

	_, err := h.o.Health.SetOutage(ctx, r.Prefix, x.Name, &o, nil)
	return err
}

// tell schedules a notice about an outage. It reports false if another instance has to, because this one has no route
// for it.
func (h *Hooks) tell(ctx context.Context, r *route.Route, x *receivers.Health, o *receivers.Outage, event string) (bool, error) {
	if r.OnDead.Robot != nil {
		return h.tellTeam(ctx, r, x, o, event)
	}

	body, err := json.Marshal(downFacts(r, x, o, event))
	if err != nil {
		return false, err
	}

	return h.put(ctx, r.OnDead, o.ID(x.Name, event), body)
}

// outageFacts is the body of a hook's notice about a receiver.
type outageFacts struct {
	Event        string      `json:"event"`
	Route        string      `json:"route"`
	Receiver     string      `json:"receiver"`
	FailingSince string      `json:"failing_since"`
	AnsweredAt   string      `json:"answered_at,omitempty"`
	Failures     int         `json:"failures"`
	LastFailure  lastFailure `json:"last_failure"`
}

type lastFailure struct {
	At     string `json:"at"`
	Status int    `json:"status,omitempty"`
	Reason string `json:"reason"`
}

func downFacts(r *route.Route, x *receivers.Health, o *receivers.Outage, event string) outageFacts {
	f := outageFacts{Event: event, Route: r.Name, Receiver: x.Name, FailingSince: notice.Stamp(o.Since), Failures: o.Failures,
		LastFailure: lastFailure{At: notice.Stamp(o.LastFailure), Status: o.Status, Reason: o.Reason}}
	if event == eventUp {
		f.AnsweredAt = notice.Stamp(x.LastSuccess)
	}

	return f
}
