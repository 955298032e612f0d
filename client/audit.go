package client

import (
	"bytes"
	"context"
	"encoding/json"
	"iter"
	"time"
)

// AuditEntry records a call that changed data, or several equal calls within a minute.
type AuditEntry struct {
	Raw
	ID      string    `json:"id"` // orders entries by time
	At      time.Time `json:"at"`
	Count   int       `json:"count"`   // number of calls; At is the time of the first
	Client  string    `json:"client"`  // the client's name; empty if no clients are configured
	Address string    `json:"address"` // IP address of the caller
	Via     string    `json:"via"`     // api or pages
	Action  string    `json:"action"`  // cancel, redrive, pause, …
	Key     string    `json:"key"`     // the notice's key, of a call on one notice
	Prefix  string    `json:"prefix"`  // prefix of the keys, of a call on several notices
	Route   string    `json:"route"`   // name of the route, of a call on a route
	Result  string    `json:"result"`  // done or failed; a failed change may have been made if Redis gave no answer
	Detail  string    `json:"detail"`  // details, as text
}

// UnmarshalJSON reads an entry and keeps its bytes.
func (e *AuditEntry) UnmarshalJSON(b []byte) error {
	type plain AuditEntry
	if err := json.Unmarshal(b, (*plain)(e)); err != nil {
		return err
	}

	e.keep(bytes.Clone(b))
	return nil
}

// Audit is a page of audit entries, newest first.
type Audit struct {
	Raw
	Items  []AuditEntry `json:"items"`
	Cursor string       `json:"cursor"`
}

// AuditQuery filters the audit. Empty fields do not filter.
type AuditQuery struct {
	Prefix string // app, app:module or app:module:type, or a notice's key
	Since  time.Time
	Until  time.Time // exclusive
	Cursor string    // of the previous page
	Limit  int       // entries a page
}

// Audit returns a page of the audit. A page may have fewer entries than the limit although more pages
// follow.
func (c *Client) Audit(ctx context.Context, q AuditQuery) (*Audit, error) {
	a := &Audit{}
	v := Query{Prefix: q.Prefix, Since: q.Since, Until: q.Until, Cursor: q.Cursor, Limit: q.Limit}.values()
	return a, c.into(ctx, request{method: "GET", path: []string{"v1", "audit"}, query: v, idempotent: true}, a)
}

// AuditEntries iterates over all entries from the query's cursor on. It stops after the first error.
func (c *Client) AuditEntries(ctx context.Context, q AuditQuery) iter.Seq2[*AuditEntry, error] {
	return pages(q.Cursor, func(cursor string) ([]AuditEntry, string, error) {
		q.Cursor = cursor
		a, err := c.Audit(ctx, q)
		if err != nil {
			return nil, "", err
		}

		return a.Items, a.Cursor, nil
	})
}
