package reconcile

import (
	"context"
	"encoding/json"
	"errors"

	"notifier/internal/notice"
	"notifier/internal/receivers"
	"notifier/internal/route"
)

// Pauses has the pauses that rules have made. *[receivers.Holds] is one.
type Pauses interface {
	// RuledBy returns the pauses by the rules of a route: those at present, and those that are being released.
	RuledBy(ctx context.Context, routes *route.Table, r *route.Route) ([]*receivers.Pause, error)
	// Tell stores that the hook has a notice of a pause, or of its end, unless the pause has changed.
	Tell(ctx context.Context, p *receivers.Pause) error
}

// routePauses schedules the notices about receivers that rules of a route have paused, and about those that are resumed.
func (h *Hooks) routePauses(ctx context.Context, r *route.Route) error {
	if h.o.Pauses == nil || !r.Rules() {
		return nil
	}

	list, err := h.o.Pauses.RuledBy(ctx, h.o.Routes, r)
	failed := []error{err}
	for _, p := range list {
		if p.Told != p.Resumed {
			continue
		}

		ok, err := h.tellPause(ctx, r, p)
		if err == nil && ok { // after the notice, so that a kill in between repeats it with the same id
			err = h.o.Pauses.Tell(ctx, p)
		}

		failed = append(failed, err)
	}

	return errors.Join(failed...)
}

// pauseFacts is the body of a hook's notice about a receiver that was paused by rule, or is resumed.
type pauseFacts struct {
	Event     string `json:"event"`
	Route     string `json:"route"`
	Receiver  string `json:"receiver"`
	Audience  string `json:"audience,omitempty"`
	Prefix    string `json:"prefix"`
	Rule      string `json:"rule"`
	PausedAt  string `json:"paused_at"`
	ResumedAt string `json:"resumed_at,omitempty"`
}

// tellPause schedules the notice of a pause, or of its end. It reports false if another instance has to.
func (h *Hooks) tellPause(ctx context.Context, r *route.Route, p *receivers.Pause) (bool, error) {
	switch {
	case r.OnDead.Robot != nil && p.Resumed: // the end of all pauses is a message of the cause
		return true, nil
	case r.OnDead.Robot != nil:
		return h.note(ctx, r.OnDead.Prefix, causeName(r.Name, reasonPaused), receivers.Cause{Since: p.Since.UnixMilli(), Receiver: p.Host})
	}

	f := pauseFacts{Event: eventPaused, Route: r.Name, Receiver: p.Host, Audience: p.Audience, Prefix: p.Prefix, Rule: p.Rule,
		PausedAt: notice.Stamp(p.Since)}
	if p.Resumed {
		f.Event, f.ResumedAt = eventResumed, notice.Stamp(p.At)
	}

	body, err := json.Marshal(f)
	if err != nil {
		return false, err
	}

	o := receivers.Outage{Since: p.Since}
	return h.put(ctx, r.OnDead, o.ID(p.String(), f.Event), body)
}
