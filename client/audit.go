package client

import (
	"bytes"
	"context"
	"encoding/json"
	"time"
)

// AuditEntry is a call by which somebody changed something, or several that were the same
// within a minute.
type AuditEntry struct {
	Raw
	ID      string    `json:"id"` // orders entries by time
	At      time.Time `json:"at"`
	Count   int       `json:"count"`   // of calls; At is the time of the first
	Client  string    `json:"client"`  // the client's name; empty where none is configured
	Address string    `json:"address"` // where the call came from
	Via     string    `json:"via"`     // api or pages
	Action  string    `json:"action"`  // cancel, redrive, pause, …
	Key     string    `json:"key"`     // of a call on one notice
	Prefix  string    `json:"prefix"`  // what the keys lie under, of a call on more than one
	Route   string    `json:"route"`   // of a call on a route
	Result  string    `json:"result"`  // done, or failed: Redis gave no answer, and it may have been done
	Detail  string    `json:"detail"`  // more, in words
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

// Audit is a page of entries, the newest first.
type Audit struct {
	Raw
	Items  []AuditEntry `json:"items"`
	Cursor string       `json:"cursor"`
}

// AuditQuery filters the audit; empty fields are left out.
type AuditQuery struct {
	Prefix string // app, app:module or app:module:type, or a notice's key
	Since  time.Time
	Until  time.Time // exclusive
	Cursor string    // of the page before
	Limit  int       // entries a page
}

// Audit reads who changed what, one page of it; a page may be short although more
// follow.
func (c *Client) Audit(ctx context.Context, q AuditQuery) (*Audit, error) {
	a := &Audit{}
	v := Query{Prefix: q.Prefix, Since: q.Since, Until: q.Until, Cursor: q.Cursor, Limit: q.Limit}.values()
	return a, c.into(ctx, request{method: "GET", path: []string{"v1", "audit"}, query: v, again: true}, a)
}
