package client

import (
	"context"
	"time"
)

// Problems is the answer to GET /v1/problems.
type Problems struct {
	Raw
	Items    []FoundProblem `json:"items"` // the worst first
	At       time.Time      `json:"at"`    // when the figures were read
	Outdated string         `json:"outdated"`
	Unread   bool           `json:"unread"`  // parts of the figures were never read, so there may be more problems
	Missing  []string       `json:"missing"` // these parts: counts, minutes, instances, receivers, checks
}

// FoundProblem is one problem, or several with the same cause.
type FoundProblem struct {
	Kind     string    `json:"kind"`     // such as dead, receivers_failing, overdue, redis_full
	Severity string    `json:"severity"` // warning or error
	Title    string    `json:"title"`
	Details  string    `json:"details"`
	Route    string    `json:"route"`
	Prefix   string    `json:"prefix"`
	Reason   string    `json:"reason"` // of the deaths, or of the last attempts of failing receivers
	Status   int       `json:"status"` // the HTTP status that belongs to the reason
	Count    int64     `json:"count"`  // of notices or receivers, according to the kind; 0 = not counted
	Hosts    int       `json:"hosts"`  // receivers with the problem; 0 = not known
	Since    time.Time `json:"since"`
	Last     time.Time `json:"last"`
	Examples []string  `json:"examples"` // some receivers or instances
	// Changed is the change of the route's settings after which the problem began; nil = none is known.
	Changed *RouteChanged `json:"changed"`
	Command string        `json:"command"` // shows or ends the problem
	Page    string        `json:"page"`    // of the dashboard
}

// RouteChanged is a change of the settings of a route.
type RouteChanged struct {
	At       time.Time `json:"at"`
	Settings []string  `json:"settings"`
	Page     string    `json:"page"`
}

// Problems lists the current problems within the client's prefix, the worst first. A name of a route selects its problems;
// empty = all.
func (c *Client) Problems(ctx context.Context, route string) (*Problems, error) {
	p := &Problems{}
	return p, c.into(ctx, request{method: "GET", path: []string{"v1", "problems"}, query: Query{Route: route}.values(), idempotent: true}, p)
}
