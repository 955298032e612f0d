package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Raw is an answer as it came.
type Raw struct {
	JSON []byte `json:"-"`
}

func (r *Raw) keep(b []byte) { r.JSON = bytes.TrimSpace(b) }

// Notice is a notice as the API shows it.
type Notice struct {
	Raw
	Key         string          `json:"key"`
	ID          string          `json:"id"`
	Route       string          `json:"route"`
	State       string          `json:"state"`
	Due         time.Time       `json:"due"`
	Attempt     int             `json:"attempt"`
	MaxAttempts int             `json:"max_attempts"`
	URL         string          `json:"url"`
	Method      string          `json:"method"`
	ContentType string          `json:"content_type"`
	Retry       []string        `json:"retry"`
	CreatedAt   time.Time       `json:"created_at"`
	SettledAt   time.Time       `json:"settled_at"`
	Reason      string          `json:"reason"`
	Attempts    []Attempt       `json:"attempts"`
	Body        json.RawMessage `json:"body"`
	BodyBase64  []byte          `json:"body_base64"`

	// Of a schedule call.
	Created  bool `json:"created"`
	Replaced bool `json:"replaced"`
	// Of a call that changes a notice.
	Changed  bool   `json:"changed"`
	Before   string `json:"before"`
	InFlight bool   `json:"in_flight"`
}

// UnmarshalJSON reads a notice and keeps its bytes.
func (n *Notice) UnmarshalJSON(b []byte) error {
	type plain Notice
	if err := json.Unmarshal(b, (*plain)(n)); err != nil {
		return err
	}
	n.keep(bytes.Clone(b))
	return nil
}

// Attempt is one attempt.
type Attempt struct {
	N          int       `json:"n"`
	At         time.Time `json:"at"`
	Status     int       `json:"status"`
	DurationMS int64     `json:"duration_ms"`
	Reason     string    `json:"reason"`
	Response   string    `json:"response"`
}

// Request is a notice to schedule, in the API's words. Empty fields are left
// out. Of Body, BodyText and BodyBase64 one may be given, of Delay and Due too.
type Request struct {
	Key         string            `json:"key"`
	Delay       string            `json:"delay,omitempty"`
	Due         string            `json:"due,omitempty"`
	Body        json.RawMessage   `json:"-"`
	BodyText    *string           `json:"body_text,omitempty"`
	BodyBase64  []byte            `json:"body_base64,omitempty"`
	ContentType string            `json:"content_type,omitempty"`
	URL         string            `json:"url,omitempty"`
	Headers     map[string]string `json:"headers,omitempty"`
	Method      string            `json:"method,omitempty"`
	Retry       any               `json:"retry,omitempty"` // a ladder's text, or a list of delays
	OnDuplicate string            `json:"on_duplicate,omitempty"`
}

// MarshalJSON puts the body in. Package json then takes the white space out of
// it; [Client.Schedule] does not.
func (r Request) MarshalJSON() ([]byte, error) { return r.Line() }

// Line is the request as JSON without a line break, the body byte for byte, for
// ScheduleLines.
func (r Request) Line() ([]byte, error) {
	type plain Request
	b, err := json.Marshal(plain(r))
	if err != nil {
		return nil, fmt.Errorf("write the notice: %w", err)
	}
	if r.Body == nil {
		return b, nil
	}
	if !json.Valid(r.Body) {
		return nil, fmt.Errorf("the body is not JSON; give it as text or base64")
	}
	b = append(b[:len(b)-1], `,"body":`...)
	return append(append(b, r.Body...), '}'), nil
}

// Schedule schedules a notice. It may be called again with the same request,
// unless that says replace.
func (c *Client) Schedule(ctx context.Context, r Request) (*Notice, error) {
	body, err := r.Line()
	if err != nil {
		return nil, err
	}
	n := &Notice{}
	return n, c.into(ctx, request{method: "POST", path: []string{"v1", "notices"}, body: body, again: r.OnDuplicate != "replace"}, n)
}

// Result is one item's of a batch.
type Result struct {
	Key      string   `json:"key"`
	Status   int      `json:"status"`
	Created  bool     `json:"created"`
	Replaced bool     `json:"replaced"`
	Problem  *Problem `json:"problem"`
}

// ScheduleLines schedules up to 1,000 notices, each one line of JSON. again
// tells that none of them says replace, so that the call may be repeated.
func (c *Client) ScheduleLines(ctx context.Context, lines [][]byte, again bool) ([]Result, error) {
	_, raw, err := c.do(ctx, request{method: "POST", path: []string{"v1", "notices", "batch"}, body: bytes.Join(lines, []byte("\n")),
		ctype: "application/x-ndjson", accept: "application/x-ndjson", again: again})
	if err != nil {
		return nil, err
	}
	out := make([]Result, 0, len(lines))
	dec := json.NewDecoder(bytes.NewReader(raw))
	for dec.More() {
		var r Result
		if err := dec.Decode(&r); err != nil {
			return nil, fmt.Errorf("the answer to a batch cannot be read: %w", err)
		}
		out = append(out, r)
	}
	if len(out) != len(lines) {
		return nil, fmt.Errorf("a batch of %d was answered with %d results", len(lines), len(out))
	}
	return out, nil
}

// Get reads a notice.
func (c *Client) Get(ctx context.Context, key string) (*Notice, error) {
	n := &Notice{}
	return n, c.into(ctx, request{method: "GET", path: []string{"v1", "notices", key}, again: true}, n)
}

// Cancel cancels a notice.
func (c *Client) Cancel(ctx context.Context, key string) (*Notice, error) {
	n := &Notice{}
	return n, c.into(ctx, request{method: "DELETE", path: []string{"v1", "notices", key}, again: true}, n)
}

// Reschedule gives a notice another due time: a delay or a time, the other empty.
func (c *Client) Reschedule(ctx context.Context, key, delay, due string) (*Notice, error) {
	body, err := json.Marshal(map[string]string{pick(due == "", "delay", "due"): or(due, delay)})
	if err != nil {
		return nil, err
	}
	n := &Notice{}
	return n, c.into(ctx, request{method: "PATCH", path: []string{"v1", "notices", key}, body: body, again: true}, n)
}

func pick(first bool, a, b string) string {
	if first {
		return a
	}
	return b
}

// Fire makes a notice due now.
func (c *Client) Fire(ctx context.Context, key string) (*Notice, error) {
	return c.act(ctx, key, "fire", nil)
}

// Redrive schedules a dead letter again.
func (c *Client) Redrive(ctx context.Context, key string) (*Notice, error) {
	return c.act(ctx, key, "redrive", nil)
}

// Report is what a consumer of a list or stream says of an attempt.
type Report struct {
	Attempt   int    `json:"attempt"`
	Response  string `json:"response,omitempty"`
	Permanent bool   `json:"permanent,omitempty"` // of Nack
	After     string `json:"after,omitempty"`     // of Defer
}

// Ack reports success.
func (c *Client) Ack(ctx context.Context, key string, r Report) (*Notice, error) {
	return c.act(ctx, key, "ack", r)
}

// Nack reports failure.
func (c *Client) Nack(ctx context.Context, key string, r Report) (*Notice, error) {
	return c.act(ctx, key, "nack", r)
}

// Defer puts a notice off.
func (c *Client) Defer(ctx context.Context, key string, r Report) (*Notice, error) {
	return c.act(ctx, key, "defer", r)
}

func (c *Client) act(ctx context.Context, key, verb string, with any) (*Notice, error) {
	var body []byte
	if with != nil {
		var err error
		if body, err = json.Marshal(with); err != nil {
			return nil, err
		}
	}
	n := &Notice{}
	return n, c.into(ctx, request{method: "POST", path: []string{"v1", "notices", key, verb}, body: body}, n)
}

// Query filters a listing or a bulk redrive; empty fields are left out.
type Query struct {
	Route, Prefix, State, Reason, Since, Until, Cursor string
	Limit                                              int
}

func (q Query) values() url.Values {
	v := url.Values{}
	for name, s := range map[string]string{"route": q.Route, "prefix": q.Prefix, "state": q.State, "reason": q.Reason, "since": q.Since,
		"until": q.Until, "cursor": q.Cursor} {
		if s != "" {
			v.Set(name, s)
		}
	}
	if q.Limit > 0 {
		v.Set("limit", strconv.Itoa(q.Limit))
	}
	return v
}

// Page is one page of a listing.
type Page struct {
	Raw
	Items  []Notice `json:"items"`
	Cursor string   `json:"cursor"`
}

// List reads one page.
func (c *Client) List(ctx context.Context, q Query) (*Page, error) {
	p := &Page{}
	return p, c.into(ctx, request{method: "GET", path: []string{"v1", "notices"}, query: q.values(), again: true}, p)
}

// Redriven answers a step of a bulk redrive.
type Redriven struct {
	Raw
	Matched  int    `json:"matched"`
	Redriven int    `json:"redriven"`
	Cursor   string `json:"cursor"`
}

// RedriveRoute makes a step of a bulk redrive; go on with its cursor while
// there is one.
func (c *Client) RedriveRoute(ctx context.Context, route string, q Query, dryRun bool) (*Redriven, error) {
	v := q.values()
	if dryRun {
		v.Set("dry_run", "true")
	}
	r := &Redriven{}
	return r, c.into(ctx, request{method: "POST", path: []string{"v1", "routes", route, "redrive"}, query: v, again: dryRun}, r)
}

// Route is a route as the API shows it.
type Route struct {
	Raw
	Name    string `json:"name"`
	Prefix  string `json:"prefix"`
	Target  string `json:"target"`
	Summary string `json:"summary"`
	Paused  bool   `json:"paused"`

	TargetKey string `json:"target_key"`
	Ack       string `json:"ack"`
	TimeoutMS int64  `json:"timeout_ms"`
}

// Routes lists the routes.
func (c *Client) Routes(ctx context.Context) ([]Route, error) {
	var all struct {
		Raw
		Items []Route `json:"items"`
	}
	err := c.into(ctx, request{method: "GET", path: []string{"v1", "routes"}, again: true}, &all)
	return all.Items, err
}

// Pause pauses a route.
func (c *Client) Pause(ctx context.Context, route string) (*Route, error) {
	return c.turn(ctx, route, "pause")
}

// Resume resumes a route.
func (c *Client) Resume(ctx context.Context, route string) (*Route, error) {
	return c.turn(ctx, route, "resume")
}

func (c *Client) turn(ctx context.Context, route, verb string) (*Route, error) {
	r := &Route{}
	return r, c.into(ctx, request{method: "POST", path: []string{"v1", "routes", route, verb}, again: true}, r)
}

// Stats answers GET /v1/stats.
type Stats struct {
	Raw
	Routes []RouteNumbers `json:"routes"`
}

// RouteNumbers is how one route stands.
type RouteNumbers struct {
	Route         string           `json:"route"`
	Prefix        string           `json:"prefix"`
	Configured    bool             `json:"configured"`
	Paused        bool             `json:"paused"`
	Pending       int64            `json:"pending"`
	Overdue       int64            `json:"overdue"`
	Claimed       int64            `json:"claimed"`
	Dead          int64            `json:"dead"`
	Settled       int64            `json:"settled"`
	NextDue       time.Time        `json:"next_due"`
	InFlight      int              `json:"in_flight"`
	Outcomes      map[string]int64 `json:"outcomes"`
	LatenessP50MS float64          `json:"lateness_p50_ms"`
	LatenessP99MS float64          `json:"lateness_p99_ms"`
}

// Stats reads the numbers of each route.
func (c *Client) Stats(ctx context.Context) (*Stats, error) {
	s := &Stats{}
	return s, c.into(ctx, request{method: "GET", path: []string{"v1", "stats"}, again: true}, s)
}

// Health answers GET /readyz.
type Health struct {
	Raw
	Ready    bool     `json:"ready"`
	Degraded bool     `json:"degraded"`
	Reasons  []string `json:"reasons"`
}

// Ready asks whether the service does its work. That it does not is an answer
// and no error.
func (c *Client) Ready(ctx context.Context) (*Health, error) {
	h := &Health{}
	return h, c.into(ctx, request{method: "GET", path: []string{"readyz"}, again: true, asItIs: http.StatusServiceUnavailable}, h)
}
