package client

import (
	"context"
	"net/url"
	"time"
)

// AgainOption is an option of [Client.Redrive] and [Client.Resend].
type AgainOption func(*again)

type again struct{ expires string }

// ExpiresIn makes the notice expire when d has passed, instead of at the time that it has. A notice that has expired needs it.
func ExpiresIn(d time.Duration) AgainOption { return func(a *again) { a.expires = delay(d) } }

func newAgain(options []AgainOption) (a again) {
	for _, o := range options {
		o(&a)
	}
	return a
}

// Redrive schedules a dead letter again.
func (c *Client) Redrive(ctx context.Context, key string, options ...AgainOption) (*Notice, error) {
	q := url.Values{}
	if a := newAgain(options); a.expires != "" {
		q.Set("expires", a.expires)
	}

	n := &Notice{}
	return n, c.into(ctx, request{method: "POST", path: []string{"v1", "notices", key, "redrive"}, query: q}, n)
}

// Resend sends a delivered or dead notice again, with the same webhook-id. n is the notice as returned by an earlier
// call; only its Key, ID and Ending are used. A repeated call with the same n normally sends nothing. Otherwise Resend
// fails if the notice has been scheduled again since n was returned, for example by [Client.Redrive].
func (c *Client) Resend(ctx context.Context, n *Notice, options ...AgainOption) (*Notice, error) {
	body := map[string]any{"id": n.ID, "ending": n.Ending}
	if a := newAgain(options); a.expires != "" {
		body["expires"] = a.expires
	}

	resent := &Notice{}
	return resent, c.send(ctx, request{method: "POST", path: []string{"v1", "notices", n.Key, "resend"}, idempotent: true}, body, resent)
}
