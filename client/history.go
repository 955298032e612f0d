package client

import (
	"bytes"
	"context"
	"encoding/json"
	"iter"
	"net/url"
	"strings"
	"time"
)

// Replaced is an outcome in the history: another notice replaced this one under its key.
const Replaced State = "replaced"

// Ending is a history entry. A notice that was redriven or resent has several.
type Ending struct {
	Raw
	Key          string            `json:"key"`
	ID           string            `json:"id"`
	Ending       int               `json:"ending"` // 1, or higher if the notice was finalized before
	Route        string            `json:"route"`
	Host         string            `json:"host"`
	Outcome      State             `json:"outcome"` // Delivered, Dead, Cancelled or Replaced
	Reason       string            `json:"reason"`
	Due          time.Time         `json:"due"`
	CreatedAt    time.Time         `json:"created_at"`
	EndedAt      time.Time         `json:"ended_at"`
	AttemptsMade int               `json:"attempts_made"`
	URL          string            `json:"url"`
	URLSealed    bool              `json:"url_sealed"` // URL is without its query and fragment, which only the roles operate and admin get
	Audience     string            `json:"audience"`
	Method       string            `json:"method"`
	ContentType  string            `json:"content_type"`
	Retry        []string          `json:"retry"`
	Expires      time.Time         `json:"expires"` // no attempt began from then on; zero = it did not expire
	Tick         time.Time         `json:"tick"`    // the time that a notice of a recurring one was for; zero for others
	Headers      map[string]string `json:"headers"`
	Withheld     []string          `json:"headers_withheld"` // names of headers with secret values, which are not stored
	Attempts     []Attempt         `json:"attempts"`
	BodySize     int               `json:"body_size"`
	BodySHA256   string            `json:"body_sha256"`
	BodyKept     bool              `json:"body_kept"`
	Sealed       bool              `json:"sealed"`       // only the roles operate and admin get body, headers and answers
	ForgottenAt  time.Time         `json:"forgotten_at"` // when the subject of a sealed notice was forgotten; zero = not
	Unreadable   []string          `json:"unreadable"`   // columns of the database row that cannot be decoded
	Body         json.RawMessage   `json:"body"`
	BodyBase64   []byte            `json:"body_base64"`
}

// UnmarshalJSON decodes an entry and keeps its bytes.
func (e *Ending) UnmarshalJSON(b []byte) error {
	type plain Ending
	if err := json.Unmarshal(b, (*plain)(e)); err != nil {
		return err
	}

	e.keep(bytes.Clone(b))
	return nil
}

// Endings is a page of the history, latest first.
type Endings struct {
	Raw
	Items  []Ending `json:"items"`
	Cursor string   `json:"cursor"`
}

// HistoryQuery filters the history. Empty fields do not filter.
type HistoryQuery struct {
	Key     string
	ID      string // a webhook-id
	Part    string // a part of a key, or with a colon its beginning; needs Since unless it has three colons
	Prefix  string // app, app:module or app:module:type
	Host    string
	Outcome []State
	Reason  string
	Since   time.Time // of the time of the outcome
	Until   time.Time // exclusive
	Text    string    // words of the body or of an answer; needs Since
	Cursor  string    // of the previous page
	Limit   int       // entries per page
}

// History returns a page of the history. A service without a history answers with 404.
func (c *Client) History(ctx context.Context, q HistoryQuery) (*Endings, error) {
	e := &Endings{}
	v := Query{Prefix: q.Prefix, Reason: q.Reason, Since: q.Since, Until: q.Until, Cursor: q.Cursor, Limit: q.Limit}.values()
	filled(v, map[string]string{"key": q.Key, "host": q.Host, "outcome": joinStates(q.Outcome), "text": q.Text, "id": q.ID, "part": q.Part})
	return e, c.into(ctx, request{method: "GET", path: []string{"v1", "history"}, query: v, idempotent: true}, e)
}

// Endings iterates over all history entries from the query's cursor on. It stops after the first error.
func (c *Client) Endings(ctx context.Context, q HistoryQuery) iter.Seq2[*Ending, error] {
	return pages(q.Cursor, func(cursor string) ([]Ending, string, error) {
		q.Cursor = cursor
		e, err := c.History(ctx, q)
		if err != nil {
			return nil, "", err
		}

		return e.Items, e.Cursor, nil
	})
}

func joinStates(list []State) string {
	texts := make([]string, len(list))
	for i, s := range list {
		texts[i] = string(s)
	}

	return strings.Join(texts, ",")
}

// Forgotten is the result of forgetting an audience or id.
type Forgotten struct {
	Raw
	Subject     string    `json:"subject"`
	ForgottenAt time.Time `json:"forgotten_at"`
	Keys        int       `json:"keys"` // data keys that this call has deleted
	Job         string    `json:"job"`  // id of the job that cancels the pending notices
	// Missing are the instances that may still use the deleted keys.
	Missing []Instance `json:"missing"`
}

// Lifted is the result of lifting a forgotten audience or id.
type Lifted struct {
	Raw
	Subject string `json:"subject"`
	Changed bool   `json:"changed"` // false: it was not forgotten
}

// ForgetAudience makes the contents of an audience's sealed notices unreadable, cancels its pending notices, and lets the service
// refuse new ones. It takes some 4 seconds, is for clients without a prefix, and may be repeated after an error.
func (c *Client) ForgetAudience(ctx context.Context, audience string) (*Forgotten, error) {
	return c.forget(ctx, "audience:"+audience)
}

// ForgetID is ForgetAudience for the notices of an id: app:module:id.
func (c *Client) ForgetID(ctx context.Context, id string) (*Forgotten, error) {
	return c.forget(ctx, "id:"+id)
}

func (c *Client) forget(ctx context.Context, subject string) (*Forgotten, error) {
	f := &Forgotten{}
	return f, c.into(ctx, request{method: "DELETE", path: []string{"v1", "subjects", subject}, idempotent: true}, f)
}

// LiftAudience lets new notices of a forgotten audience be scheduled again. The old ones stay unreadable.
func (c *Client) LiftAudience(ctx context.Context, audience string) (*Lifted, error) {
	return c.lift(ctx, "audience:"+audience)
}

// LiftID is LiftAudience for an id: app:module:id.
func (c *Client) LiftID(ctx context.Context, id string) (*Lifted, error) {
	return c.lift(ctx, "id:"+id)
}

func (c *Client) lift(ctx context.Context, subject string) (*Lifted, error) {
	l := &Lifted{}
	return l, c.into(ctx, request{method: "POST", path: []string{"v1", "subjects", subject, "lift"}, idempotent: true}, l)
}

// Erased is the result of an erasure.
type Erased struct {
	Raw
	Rows    int64 `json:"rows"`    // deleted rows of the database
	Redis   int   `json:"redis"`   // deleted settled notices and dead letters in Redis
	Pending int   `json:"pending"` // of a key: 1 if its notice is not finalized; that notice stays
}

// EraseKey deletes the finalized notices of a key, in the history and in Redis. It may be repeated after
// an error.
func (c *Client) EraseKey(ctx context.Context, key string) (*Erased, error) {
	return c.erase(ctx, "key", key)
}

// EraseHost deletes the finalized notices that went to a host. It is for clients without a prefix, and
// may be repeated after an error.
func (c *Client) EraseHost(ctx context.Context, host string) (*Erased, error) {
	return c.erase(ctx, "host", host)
}

func (c *Client) erase(ctx context.Context, name, value string) (*Erased, error) {
	e := &Erased{}
	return e, c.into(ctx, request{method: "DELETE", path: []string{"v1", "history"}, query: url.Values{name: {value}}, idempotent: true}, e)
}
