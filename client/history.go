package client

import (
	"bytes"
	"context"
	"encoding/json"
	"net/url"
	"strings"
	"time"
)

// Replaced is how a notice ended, beside [Delivered], [Dead] and [Cancelled].
const Replaced = "replaced" // another notice took its key

// Ending is one ending of a notice, from the history.
type Ending struct {
	Raw
	Key          string            `json:"key"`
	ID           string            `json:"id"`
	Ending       int               `json:"ending"` // 1, or more if it had ended before
	Route        string            `json:"route"`
	Host         string            `json:"host"`
	Outcome      string            `json:"outcome"` // Delivered, Dead, Cancelled or Replaced
	Reason       string            `json:"reason"`
	Due          time.Time         `json:"due"`
	CreatedAt    time.Time         `json:"created_at"`
	EndedAt      time.Time         `json:"ended_at"`
	AttemptsMade int               `json:"attempts_made"`
	URL          string            `json:"url"`
	Audience     string            `json:"audience"`
	Method       string            `json:"method"`
	ContentType  string            `json:"content_type"`
	Retry        []string          `json:"retry"`
	Headers      map[string]string `json:"headers"`
	Withheld     []string          `json:"headers_withheld"` // names of headers whose values are not kept
	Attempts     []Attempt         `json:"attempts"`
	BodySize     int               `json:"body_size"`
	BodySHA256   string            `json:"body_sha256"`
	BodyKept     bool              `json:"body_kept"`
	Unreadable   []string          `json:"unreadable"` // columns of its row that cannot be read
	Body         json.RawMessage   `json:"body"`
	BodyBase64   []byte            `json:"body_base64"`
}

// UnmarshalJSON reads an ending and keeps its bytes.
func (e *Ending) UnmarshalJSON(b []byte) error {
	type plain Ending
	if err := json.Unmarshal(b, (*plain)(e)); err != nil {
		return err
	}
	e.keep(bytes.Clone(b))
	return nil
}

// Endings is a page of the history, the latest first.
type Endings struct {
	Raw
	Items  []Ending `json:"items"`
	Cursor string   `json:"cursor"`
}

// HistoryQuery filters the history; empty fields are left out.
type HistoryQuery struct {
	Key     string
	ID      string // a webhook-id
	Part    string // a part of a key, or with a colon the beginning of one; needs Since unless it has three colons
	Prefix  string // app, app:module or app:module:type
	Host    string
	Outcome []string
	Reason  string
	Since   time.Time // by the time of the ending
	Until   time.Time // exclusive
	Text    string    // words of the body or of an answer; needs Since
	Cursor  string    // of the page before
	Limit   int       // endings a page
}

// History reads what has ended, one page of it. A service without a history
// answers with 404.
func (c *Client) History(ctx context.Context, q HistoryQuery) (*Endings, error) {
	e := &Endings{}
	v := Query{Prefix: q.Prefix, Reason: q.Reason, Since: q.Since, Until: q.Until, Cursor: q.Cursor, Limit: q.Limit}.values()
	for name, value := range map[string]string{"key": q.Key, "host": q.Host, "outcome": strings.Join(q.Outcome, ","), "text": q.Text,
		"id": q.ID, "part": q.Part} {
		if value != "" {
			v.Set(name, value)
		}
	}
	return e, c.into(ctx, request{method: "GET", path: []string{"v1", "history"}, query: v, again: true}, e)
}

// Erased answers an erasure.
type Erased struct {
	Raw
	Rows    int64 `json:"rows"`    // of the database
	Redis   int   `json:"redis"`   // settled notices and dead letters that Redis still kept
	Pending int   `json:"pending"` // of a key: a notice that has not ended, which stays
}

// EraseKey erases what has ended under a key, EraseHost what ended that a host
// was called for, everywhere. Both may be repeated after an error.
func (c *Client) EraseKey(ctx context.Context, key string) (*Erased, error) {
	return c.erase(ctx, "key", key)
}

// EraseHost is EraseKey for a host; only for clients without a prefix.
func (c *Client) EraseHost(ctx context.Context, host string) (*Erased, error) {
	return c.erase(ctx, "host", host)
}

func (c *Client) erase(ctx context.Context, name, value string) (*Erased, error) {
	e := &Erased{}
	return e, c.into(ctx, request{method: "DELETE", path: []string{"v1", "history"}, query: url.Values{name: {value}}, again: true}, e)
}
