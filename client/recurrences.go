package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"time"
)

// RecurrenceRequest describes a recurring notice. Its ticks are those of Cron or of Every.
type RecurrenceRequest struct {
	Key    string        `json:"-"`              // app:module:type:name; the name has at most 118 characters
	Cron   string        `json:"cron,omitempty"` // "0 2 * * *", "@daily"
	Zone   string        `json:"zone,omitempty"` // of Cron, such as Asia/Shanghai; empty = UTC
	Every  time.Duration `json:"-"`              // 1s or more
	Anchor time.Time     `json:"-"`              // one tick of Every; zero = 1970-01-01T00:00:00Z
	From   time.Time     `json:"-"`              // no tick before it
	Until  time.Time     `json:"-"`              // no tick after it
	Times  int           `json:"times,omitempty"`
	// Missed is MissedSkip, MissedLatest (the default) or MissedAll, with a maximum of MissedMost.
	Missed     string `json:"missed,omitempty"`
	MissedMost int    `json:"missed_most,omitempty"`
	// Overlap is OverlapAllow, OverlapSkip or OverlapWait. The default depends on the route.
	Overlap string `json:"overlap,omitempty"`
	Paused  bool   `json:"paused,omitempty"`
	// The following are those of each notice, as in Request.
	Body        json.RawMessage   `json:"-"`
	BodyText    *string           `json:"body_text,omitempty"`
	BodyBase64  []byte            `json:"body_base64,omitempty"`
	ContentType string            `json:"content_type,omitempty"`
	URL         string            `json:"url,omitempty"`
	Audience    string            `json:"audience,omitempty"`
	Headers     map[string]string `json:"headers,omitempty"`
	Method      string            `json:"method,omitempty"`
	Retry       string            `json:"retry,omitempty"`
	Expires     time.Duration     `json:"-"` // after the tick
	// Number, if not 0, is the number of its last notice in the service that it comes from. Its numbers go on after it, or after a higher
	// one that is stored.
	Number int `json:"number,omitempty"`
	// LastTick is the tick of that notice. If it is to come, this tick has the notice with that number in this service, too.
	LastTick time.Time `json:"-"`
}

// Values of RecurrenceRequest.Missed: what follows for ticks that passed while no instance was running, or while the recurrence or
// its route was paused.
const (
	MissedSkip   = "skip"   // no notice for ticks older than a minute
	MissedLatest = "latest" // a notice for the last of them
	MissedAll    = "all"    // a notice for each of the last MissedMost
)

// Values of RecurrenceRequest.Overlap: what follows at a tick while an earlier notice is pending or in flight.
const (
	OverlapAllow = "allow" // both are delivered; not on a route with an order
	OverlapSkip  = "skip"  // no notice
	OverlapWait  = "wait"  // the later one waits; only on a route with an order
)

// MarshalJSON writes the request as the API reads it, but for the key.
func (r RecurrenceRequest) MarshalJSON() ([]byte, error) { return r.line() }

// line returns the request as JSON, with the body byte for byte.
func (r RecurrenceRequest) line() ([]byte, error) {
	type plain RecurrenceRequest
	b, err := json.Marshal(struct {
		plain
		Every   string `json:"every,omitempty"`
		Anchor  string `json:"anchor,omitempty"`
		From    string `json:"from,omitempty"`
		Until   string `json:"until,omitempty"`
		Expires string `json:"expires,omitempty"`
		Last    string `json:"last_tick,omitempty"`
	}{plain(r), delay(r.Every), instant(r.Anchor), instant(r.From), instant(r.Until), delay(r.Expires), instant(r.LastTick)})
	if err != nil {
		return nil, fmt.Errorf("encode the recurrence: %w", err)
	}
	if r.Body == nil {
		return b, nil
	}
	if !json.Valid(r.Body) {
		return nil, errors.New("the body is not JSON; give it as text or base64")
	}

	opening := `,"body":`
	if string(b) == "{}" {
		opening = opening[1:]
	}

	b = append(b[:len(b)-1], opening...)
	return append(append(b, r.Body...), '}'), nil
}

// Recurrence is a recurring notice as the API shows it.
type Recurrence struct {
	Raw
	Key         string            `json:"key"`
	Route       string            `json:"route"`
	Cron        string            `json:"cron"`
	Zone        string            `json:"zone"`
	Every       string            `json:"every"`
	Anchor      time.Time         `json:"anchor"`
	From        time.Time         `json:"from"`
	Until       time.Time         `json:"until"`
	Times       int               `json:"times"`
	Missed      string            `json:"missed"`
	MissedMost  int               `json:"missed_most"`
	Overlap     string            `json:"overlap"`
	Paused      bool              `json:"paused"`
	URL         string            `json:"url"`
	Audience    string            `json:"audience"`
	Method      string            `json:"method"`
	ContentType string            `json:"content_type"`
	Retry       []string          `json:"retry"`
	Expires     string            `json:"expires"`
	Headers     map[string]string `json:"headers"`
	Withheld    []string          `json:"headers_withheld"` // names of headers with secret values, which are not shown
	Sealed      bool              `json:"sealed"`           // Redis has body and headers encrypted; the roles operate and admin see them
	ForgottenAt time.Time         `json:"forgotten_at"`     // when its audience or id was forgotten; zero = it was not
	Client      string            `json:"client"`
	Number      int               `json:"number"`           // of the last notice
	Last        string            `json:"last"`             // key of the last notice for a tick
	LastTick    time.Time         `json:"last_tick"`        // the tick of that notice
	Stored      int               `json:"stored"`           // notices for ticks so far
	MissedTicks int               `json:"missed_ticks"`     // ticks without a notice because they were missed
	Overlapped  int               `json:"overlapped_ticks"` // ticks without a notice because an earlier one was not finalized
	Occupied    int               `json:"occupied_numbers"` // numbers that were skipped because the key had another notice
	Next        []time.Time       `json:"next"`             // the next ticks, at most five
	Body        json.RawMessage   `json:"body"`             // not in listings
	BodyBase64  []byte            `json:"body_base64"`
	Created     bool              `json:"created"` // in the answer of PutRecurrence
}

// Recurrences is a page of recurring notices, by key and without their bodies.
type Recurrences struct {
	Raw
	Items  []Recurrence `json:"items"`
	Cursor string       `json:"cursor"` // of the next page; empty on the last one
}

// RecurrenceFilter selects recurring notices. The zero value selects all.
type RecurrenceFilter struct {
	Prefix string // app, app:module or app:module:type
	Limit  int    // of a page; 0 = 100
	Cursor string // of the page before
}

// PutRecurrence creates or replaces a recurring notice. The answer has its next five ticks. The call may be repeated.
func (c *Client) PutRecurrence(ctx context.Context, r RecurrenceRequest) (*Recurrence, error) {
	return c.putRecurrence(ctx, r, nil)
}

// PlanRecurrence checks a recurring notice and returns it with its next five ticks. It stores nothing.
func (c *Client) PlanRecurrence(ctx context.Context, r RecurrenceRequest) (*Recurrence, error) {
	return c.putRecurrence(ctx, r, url.Values{"dry_run": {"true"}})
}

func (c *Client) putRecurrence(ctx context.Context, r RecurrenceRequest, query url.Values) (*Recurrence, error) {
	body, err := r.line()
	if err != nil {
		return nil, err
	}

	x := &Recurrence{}
	return x, c.into(ctx, request{method: "PUT", path: []string{"v1", "recurrences", r.Key}, query: query, body: body, idempotent: true}, x)
}

// Recurrences lists a page of recurring notices.
func (c *Client) Recurrences(ctx context.Context, f RecurrenceFilter) (*Recurrences, error) {
	x := &Recurrences{}
	query := Query{Prefix: f.Prefix, Limit: f.Limit, Cursor: f.Cursor}.values()
	return x, c.into(ctx, request{method: "GET", path: []string{"v1", "recurrences"}, query: query, idempotent: true}, x)
}

// ReadRecurrence returns a recurring notice.
func (c *Client) ReadRecurrence(ctx context.Context, key string) (*Recurrence, error) {
	return c.recurrence(ctx, "GET", key)
}

// DeleteRecurrence deletes a recurring notice, and withdraws its notice that has not begun. Its number goes on if the key gets
// another one.
func (c *Client) DeleteRecurrence(ctx context.Context, key string) error {
	_, _, err := c.do(ctx, request{method: "DELETE", path: []string{"v1", "recurrences", key}, idempotent: true})
	return err
}

// PauseRecurrence stops a recurring notice, and withdraws its notice that has not begun.
func (c *Client) PauseRecurrence(ctx context.Context, key string) (*Recurrence, error) {
	return c.recurrence(ctx, "POST", key, "pause")
}

// ResumeRecurrence continues a paused recurring notice. Missed decides on the ticks of the pause.
func (c *Client) ResumeRecurrence(ctx context.Context, key string) (*Recurrence, error) {
	return c.recurrence(ctx, "POST", key, "resume")
}

// RunRecurrence schedules a notice that is due now, also while the recurring notice is paused. Its ticks do not change. Each call
// schedules one, so the client does not repeat a call whose answer was lost.
func (c *Client) RunRecurrence(ctx context.Context, key string) (*Notice, error) {
	n := &Notice{}
	return n, c.into(ctx, request{method: "POST", path: []string{"v1", "recurrences", key, "run"}}, n)
}

func (c *Client) recurrence(ctx context.Context, method, key string, verb ...string) (*Recurrence, error) {
	x := &Recurrence{}
	path := append([]string{"v1", "recurrences", key}, verb...)
	return x, c.into(ctx, request{method: method, path: path, idempotent: true}, x)
}
