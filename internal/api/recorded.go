package api

import (
	"context"
	"errors"
	"net/http"

	"notifier/internal/audit"
	"notifier/internal/codec"
	"notifier/internal/keys"
	"notifier/internal/store"
)

// RecordedPrefix is a prefix that is recorded for workers.
type RecordedPrefix struct {
	Prefix  string      `json:"prefix" example:"shop:orders:close"`
	Workers int         `json:"workers" doc:"Running workers with a handler for the prefix. 0: its notices wait until a worker starts, or the prefix is released. -1: unknown, because the node that stores it does not answer."`
	Handled codec.Stamp `json:"handled_at,omitzero" doc:"When a worker last reported a handler for the prefix, exact to 7 s. Absent: unknown."`
	Pending int64       `json:"pending" doc:"Scheduled and claimed notices."`
	Overdue int64       `json:"overdue" doc:"Pending notices that are due and not claimed."`
	NextDue codec.Stamp `json:"next_due,omitzero" doc:"The earliest due time of pending notices without a running attempt."`
}

// recorded returns the recorded prefixes that the caller owns.
func (a *api) recorded(ctx context.Context, at site, counts map[string]store.Counts) (out []RecordedPrefix, err error) {
	list, err := a.counter.Recorded(ctx)
	for _, x := range list {
		if at.Owns(x.Prefix) {
			c := counts[x.Prefix]
			out = append(out, RecordedPrefix{Prefix: x.Prefix, Workers: x.Workers, Handled: codec.Stamp(x.Handled),
				Pending: c.Pending, Overdue: c.Overdue, NextDue: codec.Stamp(c.NextDue)})
		}
	}

	return out, err
}

// Released answers POST /v1/routes/{name}/release.
type Released struct {
	Prefix string `json:"prefix" example:"shop:orders:close"`
	Route  string `json:"route,omitempty" doc:"The route that now matches the notices. Absent: no route of the answering instance does, so they are not delivered." example:"shop"`
}

// release serves POST /v1/routes/{name}/release. The caller must be allowed to see all notices of the prefix.
func (a *api) release(w http.ResponseWriter, r *http.Request, at site) error {
	if err := empty(w, r); err != nil {
		return err
	}

	prefix := at.param
	unknown := problem(http.StatusNotFound, "the prefix %q is not recorded for workers; GET /v1/routes lists the recorded ones",
		codec.Clip(prefix, 64))
	switch {
	case keys.CheckPrefix(prefix) != nil, !at.Meets(prefix):
		return unknown
	case !at.Owns(prefix):
		return problem(http.StatusForbidden, "prefix %s also has notices of other clients; this client may not release it", prefix)
	}

	err := a.operator.Release(r.Context(), prefix)
	switch {
	case errors.Is(err, store.ErrNotRecorded):
		return unknown
	case errors.Is(err, store.ErrHandled):
		return err
	}

	out := Released{Prefix: prefix}
	if next := a.routes.Match(prefix + ":x"); next != nil {
		out.Route = next.Name
	}

	a.operated(r, at, audit.Entry{Action: audit.Release, Route: out.Route, Prefix: prefix}, err)
	if err != nil {
		return err
	}

	return writeJSON(w, http.StatusOK, out)
}
