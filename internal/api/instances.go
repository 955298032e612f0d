package api

import (
	"net/http"

	"notifier/internal/codec"
)

// Instance is one process of the service.
type Instance struct {
	ID           string      `json:"id" doc:"Unique per process. Changes on restart, and when the process was declared dead." example:"k3v7q2m5x6ya"`
	Label        string      `json:"label" doc:"NOTIFIER_INSTANCE; not unique." example:"web-1-k2x7qd"`
	Version      string      `json:"version"`
	State        string      `json:"state" enum:"living,leaving,silent" doc:"living: alive. leaving: shutting down, its running attempts complete. silent: unresponsive, three heartbeats are missing."`
	Self         bool        `json:"self,omitempty" doc:"true for the answering instance."`
	Started      codec.Stamp `json:"started,omitzero"`
	Seen         codec.Stamp `json:"seen" doc:"Its last heartbeat, by Redis's clock."`
	TakeoverMS   int64       `json:"takeover_ms,omitempty" doc:"NOTIFIER_TAKEOVER in milliseconds: after that time without heartbeats and connections its claims are reclaimed. Absent: when their leases end."`
	Limits       string      `json:"limits,omitempty" enum:"fleet,instance" doc:"Whether its RATE and HOST_CONCURRENCY are for all instances together or for each one."`
	RoutesDiffer []string    `json:"routes_differ,omitempty" doc:"Names of routes whose configuration differs from that of the answering instance, or that only one of the two has."`
}

// Instances answers GET /v1/instances.
type Instances struct {
	Items []Instance `json:"items"`
}

// instances serves GET /v1/instances.
func (a *api) instances(w http.ResponseWriter, r *http.Request, at site) error {
	if at.Prefix != "" {
		return problem(http.StatusForbidden, "the instances serve all routes; use the token of a client without a prefix")
	}
	if err := noQuery(r); err != nil {
		return err
	}

	list, err := a.musterer.Instances(r.Context())
	if err != nil {
		return err
	}

	own := map[string]string{}
	for _, rt := range a.routes.All() {
		own[rt.Name] = rt.Digest()
	}

	self := a.musterer.Self()
	out := Instances{Items: make([]Instance, len(list))}
	for i, x := range list {
		out.Items[i] = Instance{ID: x.ID, Label: x.Label, Version: x.Version, State: string(x.State), Self: x.ID == self,
			Started: codec.Stamp(x.Started), Seen: codec.Stamp(x.Seen), TakeoverMS: x.Takeover, Limits: x.Limits,
			RoutesDiffer: x.Differences(own)}
	}

	return writeJSON(w, http.StatusOK, out)
}
