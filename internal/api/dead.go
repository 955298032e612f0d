package api

import (
	"net/http"
	"time"

	"notifier/internal/codec"
)

// Dead answers GET /v1/dead.
type Dead struct {
	Items   []DeadGroup `json:"items"`
	Total   int64       `json:"total" doc:"The sum of all counts."`
	Counted codec.Stamp `json:"counted" doc:"When the dead letters were counted."`
	Missing
}

// DeadGroup is the dead letters of a route with the same cause.
type DeadGroup struct {
	Route  string      `json:"route" doc:"The route's name; for a prefix without a configured route, the prefix." example:"orders"`
	Prefix string      `json:"prefix" example:"app1:orders"`
	Reason string      `json:"reason,omitempty" doc:"Why they are dead. Absent: unknown." example:"status_5xx"`
	Status int         `json:"status,omitempty" doc:"The HTTP status of the last attempt, for a reason that has one." example:"503"`
	Count  int64       `json:"count"`
	First  codec.Stamp `json:"first" doc:"The first death."`
	Last   codec.Stamp `json:"last" doc:"The last death."`
}

var deadParams = []parameter{paramRoute, paramReason, paramDied}

var paramDied = parameter{"since", "RFC 3339, rounded down to a minute: only notices that died since then.", "2026-11-21T00:00:00Z"}

// dead serves GET /v1/dead.
func (a *api) dead(w http.ResponseWriter, r *http.Request, at site) error {
	values, p := queryOf(r, deadParams)
	if p != nil {
		return p
	}

	var f codec.Faults
	q := a.filter(values, &f)
	if p := refusal(f); p != nil {
		return p
	}

	only := ""
	if name := values.Get("route"); name != "" {
		route, err := a.routeNamed(name, at.caller)
		if err != nil {
			return err
		}

		only = route.Prefix
	}

	count, err := a.counter.DeadCauses(r.Context(), q.Since)
	if err != nil {
		return err
	}

	out := Dead{Items: []DeadGroup{}, Counted: codec.Stamp(count.At.Truncate(time.Millisecond)), Missing: at.missing(count.Missing)}
	for _, g := range count.Groups {
		if !at.Owns(g.Prefix) || only != "" && g.Prefix != only || q.Reason != "" && g.Reason != q.Reason {
			continue
		}

		out.Total += g.Count
		out.Items = append(out.Items, DeadGroup{Route: a.routes.NameOf(g.Prefix), Prefix: g.Prefix, Reason: string(g.Reason), Status: g.Status,
			Count: g.Count, First: codec.Stamp(g.First), Last: codec.Stamp(g.Last)})
	}

	return writeJSON(w, http.StatusOK, out)
}
