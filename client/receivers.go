package client

import (
	"context"
	"net/url"
	"time"
)

// ReceiverName names a receiver. Exactly one of Host and Audience is set.
type ReceiverName struct {
	Host     string `json:"host,omitempty"`     // shop.example, which includes all ports, or shop.example:8443
	Audience string `json:"audience,omitempty"` // the audience of the notices, at the host if there is one
	Prefix   string `json:"prefix,omitempty"`   // only notices under it; empty = all that the client may see
}

// ReceiverState is the state of a receiver after a call that changed it.
type ReceiverState struct {
	Raw
	ReceiverName
	Known       bool      `json:"known"` // false: the service has no figures of the host; its name may be wrong
	Paused      bool      `json:"paused"`
	PausedUntil time.Time `json:"paused_until"` // zero = until it is resumed
	Changed     bool      `json:"changed"`      // false: the receiver to resume was not paused
	Rate        string    `json:"rate"`         // such as 5/s; empty = the route's
	Concurrency int       `json:"concurrency"`  // 0 = the route's
}

// ReceiverFigures are the figures of a receiver.
type ReceiverFigures struct {
	ReceiverName
	InFlight     int       `json:"in_flight"`
	Attempts     int       `json:"attempts"` // in this clock hour and the one before
	Failed       int       `json:"failed"`   // of Attempts
	FailingSince time.Time `json:"failing_since"`
	LastAttempt  time.Time `json:"last_attempt"` // zero = no attempt failed within 48 hours
	Status       int       `json:"status"`       // the HTTP status of the last attempt; 0 = no answer
	Reason       string    `json:"reason"`       // why the last attempt failed
	Waiting      int       `json:"waiting"`      // notices that wait for a failing receiver, at the last count
	Breaker      string    `json:"breaker"`      // open, half-open, or empty = closed
	Paused       bool      `json:"paused"`
	PausedUntil  time.Time `json:"paused_until"`
	PausedBy     string    `json:"paused_by"` // the rule of the route that made the pause; empty = a client
	Held         int64     `json:"held"`
	Rate         string    `json:"rate"`
	Concurrency  int       `json:"concurrency"`
}

// ReceiverQuery selects receivers. Empty fields select all.
type ReceiverQuery struct {
	Host     string // with or without a port
	Contains string // a part of the host or audience
	State    string // failing, paused, limited or recovered
	Route    string // only receivers of this route, with its figures
	Reason   string // why the last attempt failed: status_5xx, timeout, …
	Limit    int    // receivers per page
	Cursor   string // of the previous page
}

func (q ReceiverQuery) values() url.Values {
	return filled(url.Values{}, map[string]string{"host": q.Host, "contains": q.Contains, "state": q.State, "route": q.Route,
		"reason": q.Reason, "cursor": q.Cursor, "limit": counted(q.Limit)})
}

// Receivers is a page of the receivers that a client may see. Those that fail longest come first.
type Receivers struct {
	Raw
	Items  []ReceiverFigures `json:"items"`
	Total  int               `json:"total"`  // on all pages
	Cursor string            `json:"cursor"` // of the next page; empty = this is the last one
}

// Receivers returns a page of the receivers.
func (c *Client) Receivers(ctx context.Context, q ReceiverQuery) (*Receivers, error) {
	l := &Receivers{}
	return l, c.into(ctx, request{method: "GET", path: []string{"v1", "receivers"}, query: q.values(), idempotent: true}, l)
}

// PauseReceiver pauses a receiver until a time, or until it is resumed if the time is zero. After that time, held notices are
// spread over a duration. A repeated call replaces both.
func (c *Client) PauseReceiver(ctx context.Context, r ReceiverName, until time.Time, over time.Duration) (*ReceiverState, error) {
	return c.setReceiver(ctx, "POST", "pause", struct {
		ReceiverName
		Until string `json:"until,omitempty"`
		Over  string `json:"over,omitempty"`
	}{r, instant(until), delay(over)})
}

// ResumeReceiver resumes a receiver, and spreads its held notices over a duration.
func (c *Client) ResumeReceiver(ctx context.Context, r ReceiverName, over time.Duration) (*ReceiverState, error) {
	return c.setReceiver(ctx, "POST", "resume", struct {
		ReceiverName
		Over string `json:"over,omitempty"`
	}{r, delay(over)})
}

// LimitReceiver limits the calls to a host on each route. The rate is such as 5/s. An empty rate and a concurrency of 0 remove
// the limits.
func (c *Client) LimitReceiver(ctx context.Context, r ReceiverName, rate string, concurrency int) (*ReceiverState, error) {
	return c.setReceiver(ctx, "PUT", "limits", struct {
		ReceiverName
		Rate        string `json:"rate,omitempty"`
		Concurrency int    `json:"concurrency,omitempty"`
	}{r, rate, concurrency})
}

func (c *Client) setReceiver(ctx context.Context, method, verb string, body any) (*ReceiverState, error) {
	s := &ReceiverState{}
	return s, c.send(ctx, request{method: method, path: []string{"v1", "receivers", verb}, idempotent: true}, body, s)
}
