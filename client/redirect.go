package client

import (
	"context"
	"time"
)

// RedirectRequest describes a redirect: all pending notices with the address From get the address To.
type RedirectRequest struct {
	// From is an address without query: scheme, host and port are equal, and the path is equal or a prefix that ends
	// before a slash. It may be empty if Host is given.
	From string `json:"from,omitempty"`
	// To is the new address. The rest of the path and the query of each notice stay.
	To       string `json:"to"`
	Prefix   string `json:"prefix,omitempty"` // of the keys; empty = all that the client's prefix covers
	Audience string `json:"audience,omitempty"`
	Host     string `json:"host,omitempty"` // name or name:port
	// KeepHeaders keeps Authorization, Cookie and Proxy-* headers if the host changes.
	KeepHeaders bool `json:"keep_headers,omitempty"`
	DryRun      bool `json:"dry_run,omitempty"` // only counts
}

// RedirectState is the state of a redirect.
type RedirectState string

// The states of a redirect.
const (
	RedirectRunning RedirectState = "running"
	RedirectStopped RedirectState = "stopped"
	RedirectDone    RedirectState = "done"
	RedirectFailed  RedirectState = "failed"
)

// Redirect is a redirect with its progress.
type Redirect struct {
	Raw
	ID          string        `json:"id"`
	State       RedirectState `json:"state"`
	Reason      string        `json:"reason"`
	Client      string        `json:"client"`
	From        string        `json:"from"`
	To          string        `json:"to"`
	Prefix      string        `json:"prefix"`
	Audience    string        `json:"audience"`
	Host        string        `json:"host"`
	KeepHeaders bool          `json:"keep_headers"`
	Found       int64         `json:"found"`      // of a dry run: notices that match
	Complete    bool          `json:"complete"`   // of a dry run: false if not all notices were read
	Redirected  int64         `json:"redirected"` // notices changed so far
	InFlight    int64         `json:"in_flight"`  // notices to visit again
	Refused     int64         `json:"refused"`    // notices whose route does not take the new address
	Pass        int           `json:"pass"`
	Seen        int64         `json:"seen"`  // pending notices read in this pass
	Total       int64         `json:"total"` // pending notices at the start of this pass
	CreatedAt   time.Time     `json:"created_at"`
	ChangedAt   time.Time     `json:"changed_at"`
}

// Redirects are the last 100 redirects, latest first.
type Redirects struct {
	Raw
	Items []Redirect `json:"items"`
}

// Redirect starts a redirect. With DryRun it only counts the notices.
func (c *Client) Redirect(ctx context.Context, r RedirectRequest) (*Redirect, error) {
	x := &Redirect{}
	// A second redirect, made by a repeated call, changes nothing.
	return x, c.send(ctx, request{method: "POST", path: []string{"v1", "redirects"}, idempotent: true}, r, x)
}

// Redirects lists the redirects.
func (c *Client) Redirects(ctx context.Context) (*Redirects, error) {
	x := &Redirects{}
	return x, c.into(ctx, request{method: "GET", path: []string{"v1", "redirects"}, idempotent: true}, x)
}

// ReadRedirect returns a redirect with its progress.
func (c *Client) ReadRedirect(ctx context.Context, id string) (*Redirect, error) {
	x := &Redirect{}
	return x, c.into(ctx, request{method: "GET", path: []string{"v1", "redirects", id}, idempotent: true}, x)
}

// StopRedirect stops a redirect. [Client.ResumeRedirect] continues it.
func (c *Client) StopRedirect(ctx context.Context, id string) (*Redirect, error) {
	x := &Redirect{}
	return x, c.into(ctx, request{method: "DELETE", path: []string{"v1", "redirects", id}, idempotent: true}, x)
}

// ResumeRedirect continues a stopped redirect.
func (c *Client) ResumeRedirect(ctx context.Context, id string) (*Redirect, error) {
	x := &Redirect{}
	return x, c.into(ctx, request{method: "POST", path: []string{"v1", "redirects", id, "resume"}, idempotent: true}, x)
}
