package client

import (
	"context"
	"time"
)

// DeadCounts is the answer to GET /v1/dead.
type DeadCounts struct {
	Raw
	Items   []DeadGroup `json:"items"` // the largest first
	Total   int64       `json:"total"`
	Counted time.Time   `json:"counted"`
	Missing []string    `json:"missing"` // nodes of a Redis cluster that do not answer
}

// DeadGroup is the dead letters of a route with the same cause.
type DeadGroup struct {
	Route  string    `json:"route"`
	Prefix string    `json:"prefix"`
	Reason string    `json:"reason"`
	Status int       `json:"status"` // HTTP status of the last attempt; 0 = the reason has none
	Count  int64     `json:"count"`
	First  time.Time `json:"first"` // the first and the last death
	Last   time.Time `json:"last"`
}

// DeadQuery selects the dead letters that [Client.CountDead] counts. Empty fields do not filter.
type DeadQuery struct {
	Route  string
	Reason string
	Since  time.Time // of death, rounded down to a minute
}

// CountDead counts the dead letters of each route by reason and HTTP status. The count may be some seconds old.
func (c *Client) CountDead(ctx context.Context, q DeadQuery) (*DeadCounts, error) {
	d := &DeadCounts{}
	return d, c.into(ctx, request{method: "GET", path: []string{"v1", "dead"},
		query: Query{Route: q.Route, Reason: q.Reason, Since: q.Since}.values(), idempotent: true}, d)
}
