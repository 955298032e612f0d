package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Raw is an answer as it came.
type Raw struct {
	JSON []byte `json:"-"`
}

func (r *Raw) keep(b []byte) { r.JSON = bytes.TrimSpace(b) }

// The states of a notice.
const (
	Scheduled = "scheduled"
	Claimed   = "claimed" // an attempt is running
	Delivered = "delivered"
	Cancelled = "cancelled"
	Dead      = "dead" // given up; Redrive schedules it again
	// Settled answers a schedule call that is repeated after its notice was delivered or
	// cancelled and is no longer kept: of that notice only Key and ID are known.
	Settled = "settled"
)

// Notice is a notice as the API shows it.
type Notice struct {
	Raw
	Key          string            `json:"key"`
	ID           string            `json:"id"`
	Route        string            `json:"route"`
	State        string            `json:"state"`           // Scheduled, Claimed, Delivered, Cancelled, Dead or Settled
	Due          time.Time         `json:"due"`             // as promised
	NextAttempt  time.Time         `json:"next_attempt_at"` // of a scheduled notice: later than Due if it was postponed
	Attempt      int               `json:"attempt"`         // number of the coming attempt; 0 once the notice is finalized
	AttemptsMade int               `json:"attempts_made"`
	MaxAttempts  int               `json:"max_attempts"`
	URL          string            `json:"url"`
	Audience     string            `json:"audience"`
	Method       string            `json:"method"`
	ContentType  string            `json:"content_type"`
	Retry        []string          `json:"retry"`
	Headers      map[string]string `json:"headers"`
	Withheld     []string          `json:"headers_withheld"` // names of headers whose values are not shown
	EndedBefore  int               `json:"ended_before"`     // how often it had ended before
	Replay       string            `json:"replay"`           // the id of the replay that sends it again
	Client       string            `json:"client"`           // that scheduled it; shown to clients without a prefix
	CreatedAt    time.Time         `json:"created_at"`
	SettledAt    time.Time         `json:"settled_at"`
	Reason       string            `json:"reason"`
	Attempts     []Attempt         `json:"attempts"`
	Body         json.RawMessage   `json:"body"`
	BodyBase64   []byte            `json:"body_base64"`

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
	DurationMS float64   `json:"duration_ms"` // with decimals
	Reason     string    `json:"reason"`
	Response   string    `json:"response"`
}

// Request is a notice to schedule. What is empty is left out; the service then
// does as its route says. Of Body, BodyText and BodyBase64 one may be given, and
// of Delay and Due; with neither the notice is due at once.
type Request struct {
	Key         string            `json:"key"` // app:module:type:id
	Delay       time.Duration     `json:"-"`   // from now, by the service's clock
	Due         time.Time         `json:"-"`   // kept to the millisecond, never early
	Body        json.RawMessage   `json:"-"`   // any JSON; delivered byte for byte
	BodyText    *string           `json:"body_text,omitempty"`
	BodyBase64  []byte            `json:"body_base64,omitempty"`
	ContentType string            `json:"content_type,omitempty"`
	URL         string            `json:"url,omitempty"`      // where to, if the route's target is notice
	Audience    string            `json:"audience,omitempty"` // whom it is for, where the route signs for each audience
	Headers     map[string]string `json:"headers,omitempty"`
	Method      string            `json:"method,omitempty"`       // POST, PUT or GET
	Retry       string            `json:"retry,omitempty"`        // "15s,3m,10m", "none" or a preset; see Ladder
	OnDuplicate string            `json:"on_duplicate,omitempty"` // Reject (the default), Keep or Replace
}

// What a schedule call does where its key is kept already with another content.
// With the same content it changes nothing, whatever it says.
const (
	Reject  = "reject"  // 409, and what is kept stays
	Keep    = "keep"    // no error, and what is kept stays
	Replace = "replace" // what is kept is gone
)

// Ladder writes the delays between attempts as Request.Retry wants them; none
// means one attempt and no other.
func Ladder(steps ...time.Duration) string {
	if len(steps) == 0 {
		return "none"
	}
	s := make([]string, len(steps))
	for i, d := range steps {
		s[i] = d.String()
	}
	return strings.Join(s, ",")
}

// MarshalJSON puts the body in. Package json then takes the white space out of
// it; [Client.Schedule] does not.
func (r Request) MarshalJSON() ([]byte, error) { return r.Line() }

// Line is the request as JSON, the body byte for byte. It is one line if the
// body is, as [Client.ScheduleLines] wants it.
func (r Request) Line() ([]byte, error) {
	type plain Request
	b, err := json.Marshal(struct {
		plain
		Delay string `json:"delay,omitempty"`
		Due   string `json:"due,omitempty"`
	}{plain(r), delay(r.Delay), instant(r.Due)})
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
// unless that says [Replace]. If the notice is no longer kept by then, the answer's State
// is [Settled]; once NOTIFIER_REPEAT_WINDOW has passed as well, there is a second notice.
func (c *Client) Schedule(ctx context.Context, r Request) (*Notice, error) {
	body, err := r.Line()
	if err != nil {
		return nil, err
	}
	n := &Notice{}
	return n, c.into(ctx, request{method: "POST", path: []string{"v1", "notices"}, body: body, again: r.OnDuplicate != Replace}, n)
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
// says that none of them says replace, so that the call may be repeated.
func (c *Client) ScheduleLines(ctx context.Context, lines [][]byte, again bool) ([]Result, error) {
	return c.lines(ctx, request{method: "POST", path: []string{"v1", "notices", "batch"}, again: again}, lines)
}

// RestoreLines puts up to 1,000 notices back as they were, each one line of JSON: dead
// letters as the history, the listing or the pages' download shows them, and what was
// pending as the listing does. It may be repeated.
func (c *Client) RestoreLines(ctx context.Context, lines [][]byte) ([]Result, error) {
	return c.lines(ctx, request{method: "POST", path: []string{"v1", "notices", "restore"}, again: true}, lines)
}

func (c *Client) lines(ctx context.Context, r request, lines [][]byte) ([]Result, error) {
	r.body, r.ctype, r.accept = bytes.Join(lines, []byte("\n")), "application/x-ndjson", "application/x-ndjson"
	_, raw, err := c.do(ctx, r)
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

// Reschedule gives a notice another due time.
func (c *Client) Reschedule(ctx context.Context, key string, due time.Time) (*Notice, error) {
	return c.reschedule(ctx, key, map[string]string{"due": due.UTC().Format(time.RFC3339Nano)})
}

// RescheduleIn makes a notice due so long from now, by the service's clock.
func (c *Client) RescheduleIn(ctx context.Context, key string, delay time.Duration) (*Notice, error) {
	return c.reschedule(ctx, key, map[string]string{"delay": delay.String()})
}

func (c *Client) reschedule(ctx context.Context, key string, to map[string]string) (*Notice, error) {
	body, err := json.Marshal(to)
	if err != nil {
		return nil, err
	}
	n := &Notice{}
	return n, c.into(ctx, request{method: "PATCH", path: []string{"v1", "notices", key}, body: body, again: true}, n)
}

// delay and instant write what is given, and nothing for what is not.
func delay(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}

func instant(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// Fire makes a notice due now.
func (c *Client) Fire(ctx context.Context, key string) (*Notice, error) {
	return c.act(ctx, key, "fire")
}

// Redrive schedules a dead letter again.
func (c *Client) Redrive(ctx context.Context, key string) (*Notice, error) {
	return c.act(ctx, key, "redrive")
}

// Report is what a consumer of a list or stream says of an attempt. Attempt
// and ID are those of the entry: another notice under the same key is not meant.
type Report struct {
	Attempt   int           `json:"attempt"`
	ID        string        `json:"id"`
	Response  string        `json:"response,omitempty"`
	Permanent bool          `json:"permanent,omitempty"` // of Nack: no further attempt
	After     time.Duration `json:"-"`                   // of Defer; 0 = as the service does it
}

// MarshalJSON writes After as the API reads it.
func (r Report) MarshalJSON() ([]byte, error) {
	type plain Report
	return json.Marshal(struct {
		plain
		After string `json:"after,omitempty"`
	}{plain(r), delay(r.After)})
}

// Ack reports success. The same report again changes nothing.
func (c *Client) Ack(ctx context.Context, key string, r Report) (*Notice, error) {
	return c.report(ctx, key, "ack", r)
}

// Nack reports failure. The same report again changes nothing.
func (c *Client) Nack(ctx context.Context, key string, r Report) (*Notice, error) {
	return c.report(ctx, key, "nack", r)
}

// Defer puts a notice off. It comes again as the same attempt, so a call whose
// answer was lost is not repeated: it might put off the next consumer's.
func (c *Client) Defer(ctx context.Context, key string, r Report) (*Notice, error) {
	return c.report(ctx, key, "defer", r)
}

func (c *Client) report(ctx context.Context, key, verb string, r Report) (*Notice, error) {
	body, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	n := &Notice{}
	return n, c.into(ctx, request{method: "POST", path: []string{"v1", "notices", key, verb}, body: body, again: verb != "defer"}, n)
}

func (c *Client) act(ctx context.Context, key, verb string) (*Notice, error) {
	n := &Notice{}
	return n, c.into(ctx, request{method: "POST", path: []string{"v1", "notices", key, verb}}, n)
}

// Query filters a listing or a bulk redrive; empty fields are left out.
type Query struct {
	Route  string
	Prefix string // app, app:module or app:module:type
	State  string
	Reason string // of dead letters
	Since  time.Time
	Until  time.Time // exclusive
	Cursor string    // of the page before
	Limit  int       // notices a page
}

func (q Query) values() url.Values {
	v := url.Values{}
	for name, s := range map[string]string{"route": q.Route, "prefix": q.Prefix, "state": q.State, "reason": q.Reason,
		"since": instant(q.Since), "until": instant(q.Until), "cursor": q.Cursor} {
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
	// Missing are the nodes of a Redis cluster that do not answer: the page is without
	// what lies there, and no cursor leads back to it.
	Missing []string `json:"missing"`
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
	// Missing are as of a Page: the dead letters that lie there are left as they are.
	Missing []string `json:"missing"`
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
	// Missing are as of a Page: the numbers are without what lies there.
	Missing []string `json:"missing"`
}

// RouteNumbers is how one route stands. InFlight, Outcomes and lateness are of
// the instance that answers, the outcomes since its start.
type RouteNumbers struct {
	Route         string           `json:"route"`
	Prefix        string           `json:"prefix"`
	Configured    bool             `json:"configured"` // false: notices are left under a prefix that no route has
	Paused        bool             `json:"paused"`
	Pending       int64            `json:"pending"`
	Overdue       int64            `json:"overdue"`
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

// Instance is one process of the service.
type Instance struct {
	ID           string    `json:"id"`
	Label        string    `json:"label"` // NOTIFIER_INSTANCE; several may have the same
	Version      string    `json:"version"`
	State        string    `json:"state"` // living, leaving or silent
	Self         bool      `json:"self"`  // the one that answers
	Started      time.Time `json:"started"`
	Seen         time.Time `json:"seen"`        // its last sign of life
	TakeoverMS   int64     `json:"takeover_ms"` // 0 = its leases are waited for
	Limits       string    `json:"limits"`      // fleet or instance
	RoutesDiffer []string  `json:"routes_differ"`
}

// Instances answers GET /v1/instances.
type Instances struct {
	Raw
	Items []Instance `json:"items"`
}

// Instances lists who lives, the latest sign of life first. It needs the token of
// a client without a prefix.
func (c *Client) Instances(ctx context.Context) (*Instances, error) {
	l := &Instances{}
	return l, c.into(ctx, request{method: "GET", path: []string{"v1", "instances"}, again: true}, l)
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

// Receiver is one of those a route calls: a host where the route signs for each
// host, an audience where it signs for each audience.
type Receiver struct {
	Route    string
	Host     string // shop.example, without scheme, port and path
	Audience string
}

// ReceiverSecret is what a receiver verifies signatures with.
type ReceiverSecret struct {
	Raw
	Route    string           `json:"route"`
	SignPer  string           `json:"sign_per"`
	Host     string           `json:"host"`
	Audience string           `json:"audience"`
	Secrets  []string         `json:"secrets"` // whsec_…, one for each of the route's, the newest first
	Schemes  []ReceiverScheme `json:"schemes"`
}

// ReceiverScheme is a scheme that signs callbacks, and what a receiver needs to verify it.
type ReceiverScheme struct {
	Scheme    string        `json:"scheme"`    // as package webhook names it
	Headers   []string      `json:"headers"`   // that it writes
	Algorithm string        `json:"algorithm"` // in words
	Signed    string        `json:"signed"`    // the text that is signed, in words
	Warning   string        `json:"warning"`   // what it does not protect from
	Keys      []ReceiverKey `json:"keys"`      // none of a scheme whose keys are secrets
}

// ReceiverKey is a public key of the sender.
type ReceiverKey struct {
	ID          string `json:"id"`
	Signs       bool   `json:"signs"`       // now; otherwise later, or until lately
	PublicKey   string `json:"public_key"`  // PEM
	Certificate string `json:"certificate"` // PEM; empty = none
	Standard    string `json:"standard"`    // whpk_…, of an Ed25519 key
}

// ReceiverSecret reads the keys to hand to one receiver. It needs the token of a
// client that has the role admin and no prefix.
func (c *Client) ReceiverSecret(ctx context.Context, r Receiver) (*ReceiverSecret, error) {
	q := url.Values{}
	for name, v := range map[string]string{"host": r.Host, "audience": r.Audience} {
		if v != "" {
			q.Set(name, v)
		}
	}
	out := &ReceiverSecret{}
	return out, c.into(ctx, request{method: "GET", path: []string{"v1", "routes", r.Route, "secret"}, query: q, again: true}, out)
}
