package client

import (
	"context"
	"time"
)

// RecordedPrefix is a prefix that is recorded for workers: programs with handlers for notices.
type RecordedPrefix struct {
	Prefix  string    `json:"prefix"`
	Workers int       `json:"workers"`    // running ones with a handler for it; 0 = its notices wait, -1 = unknown
	Handled time.Time `json:"handled_at"` // when a worker last reported one; zero = unknown
	Pending int64     `json:"pending"`
	Overdue int64     `json:"overdue"`
	NextDue time.Time `json:"next_due"` // zero = none is pending
}

// Recorded is the recorded part of the answer to GET /v1/routes.
type Recorded struct {
	Raw
	Items []RecordedPrefix `json:"recorded"`
	// Missing are the nodes of a Redis cluster that do not answer. Their notices are not counted.
	Missing []string `json:"missing"`
}

// Recorded lists the prefixes that are recorded for workers.
func (c *Client) Recorded(ctx context.Context) (*Recorded, error) {
	r := &Recorded{}
	return r, c.into(ctx, request{method: "GET", path: []string{"v1", "routes"}, idempotent: true}, r)
}

// Released is the answer to a release.
type Released struct {
	Raw
	Prefix string `json:"prefix"`
	Route  string `json:"route"` // that now matches the notices; empty = none, they are not delivered
}

// Release ends the record of a prefix for workers, so that its notices belong to the route that matches their keys. The
// service refuses it with 409 while a running worker handles the prefix. The call is not retried if the answer is lost,
// because a second release is a 404.
func (c *Client) Release(ctx context.Context, prefix string) (*Released, error) {
	r := &Released{}
	return r, c.into(ctx, request{method: "POST", path: []string{"v1", "routes", prefix, "release"}}, r)
}
