package ui

import (
	"context"
	"net/http"

	"notifier/internal/api"
	"notifier/internal/audit"
	"notifier/internal/auth"
)

// note adds a visitor's change to the audit. A request that was refused has no entry.
func (p *Pages) note(r *http.Request, v Visitor, e audit.Entry, err error) {
	if !api.Concluded(&e, err) {
		return
	}

	e.Client, e.Address, e.Via = v.Client, auth.OriginOf(r).Address, audit.Pages
	p.trail.Note(r.Context(), e)
}

// lasting returns a context that continues after the browser disconnects, so that a change completes.
func lasting(r *http.Request) context.Context { return context.WithoutCancel(r.Context()) }
