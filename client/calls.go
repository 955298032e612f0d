package client

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Raw has the JSON of an answer.
type Raw struct {
	JSON []byte `json:"-"`
}

func (r *Raw) keep(b []byte) { r.JSON = bytes.TrimSpace(b) }

// State is the state of a notice. A later version of the service may have more states.
type State string

// The states of a notice.
const (
	Scheduled State = "scheduled"
	Claimed   State = "claimed" // an attempt is running
	Delivered State = "delivered"
	Cancelled State = "cancelled"
	Dead      State = "dead" // out of retries or rejected; Redrive or Resend schedules it again
	// Settled is returned by a repeated schedule call whose notice was delivered or cancelled and has
	// been trimmed since. Of the fields of Notice only Key, ID and State are set then.
	Settled State = "settled"
	// Lost is the state of a notice of which Redis has only the record left, as after an eviction. Nothing delivers it.
	Lost State = "lost"
)

// Notice is a notice as the API shows it.
type Notice struct {
	Raw
	Key          string            `json:"key"`
	ID           string            `json:"id"`
	Route        string            `json:"route"`
	State        State             `json:"state"`           // Scheduled, Claimed, Delivered, Cancelled, Dead or Settled
	Due          time.Time         `json:"due"`             // the promised time of the next attempt, or of the last one
	NextAttempt  time.Time         `json:"next_attempt_at"` // of a scheduled notice; later than Due if it was postponed
	Waits        bool              `json:"waits"`           // due, but another notice of its sequence comes first; NextAttempt is zero
	WaitsFor     string            `json:"waits_for"`       // that notice's key, if the client's prefix covers it
	Attempt      int               `json:"attempt"`         // number of the next attempt; 0 once the notice is finalized
	AttemptsMade int               `json:"attempts_made"`
	MaxAttempts  int               `json:"max_attempts"` // 0 = attempts are made until Expires, or a worker decides
	URL          string            `json:"url"`
	URLSealed    bool              `json:"url_sealed"`    // URL is without its query and fragment; the roles operate and admin get the whole URL
	ScheduledURL string            `json:"scheduled_url"` // of the schedule call, without query, if URL was changed since
	Audience     string            `json:"audience"`
	Method       string            `json:"method"`
	ContentType  string            `json:"content_type"`
	Retry        []string          `json:"retry"`
	Expires      time.Time         `json:"expires"` // no attempt begins from then on; zero = it does not expire
	Tick         time.Time         `json:"tick"`    // the time that a notice of a recurring one is for; zero for others
	Headers      map[string]string `json:"headers"`
	Withheld     []string          `json:"headers_withheld"` // names of headers with secret values, which are not shown
	Ending       int               `json:"ending"`           // how often the notice has been finalized
	EndedBefore  int               `json:"ended_before"`     // how often it was finalized before: redriven or resent since
	Replay       string            `json:"replay"`           // the id of the replay that sends it again
	Redirect     string            `json:"redirect"`         // the id of the redirect that last changed URL
	Resend       int               `json:"resend"`           // how often it was resent; callbacks carry it in notifier-resend
	ResentAfter  int               `json:"resent_after"`     // value of Ending at the last resend
	Client       string            `json:"client"`           // name of the client that scheduled it; shown to clients without a prefix
	CreatedAt    time.Time         `json:"created_at"`
	SettledAt    time.Time         `json:"settled_at"`
	Reason       string            `json:"reason"`
	Sealed       bool              `json:"sealed"`       // Redis has body, headers and answers encrypted; the roles operate and admin see them
	ForgottenAt  time.Time         `json:"forgotten_at"` // when its audience or id was forgotten, so that its content is gone; zero = it was not
	Attempts     []Attempt         `json:"attempts"`
	Body         json.RawMessage   `json:"body"`
	BodyBase64   []byte            `json:"body_base64"`

	// Set in the answer to a schedule call.
	Created  bool `json:"created"`
	Replaced bool `json:"replaced"`
	// Set in the answer to a call that changes a notice. Before is the state before the call. InFlight
	// says that an attempt was in flight, whose outcome changes nothing any more.
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

// NotSent returns why a notice that a repeated schedule call returned will not be sent, and the remedy. It is empty
// unless the notice is dead or cancelled.
func (n *Notice) NotSent() string {
	switch n.State {
	case Dead:
		return "it is dead (" + n.Reason + ") and not sent again: redrive it, or schedule it with on_duplicate replace"
	case Cancelled:
		return "it was cancelled and is not sent: schedule it with on_duplicate replace"
	}
	return ""
}

// Attempt is one attempt of a notice.
type Attempt struct {
	N          int       `json:"n"`
	At         time.Time `json:"at"`
	Status     int       `json:"status"`
	DurationMS float64   `json:"duration_ms"` // with fractions
	Reason     string    `json:"reason"`
	Response   string    `json:"response"`
}

// Request is a notice to schedule. Only Key is required. Empty fields take the settings of the notice's route. Set at
// most one of Body, BodyText and BodyBase64. Set at most one of Delay and Due; without both, the notice is due now.
type Request struct {
	Key         string            `json:"key"` // app:module:type:id
	Delay       time.Duration     `json:"-"`   // from now, by the service's clock
	Due         time.Time         `json:"-"`   // in milliseconds; never early
	Body        json.RawMessage   `json:"-"`   // any JSON; delivered byte for byte
	BodyText    *string           `json:"body_text,omitempty"`
	BodyBase64  []byte            `json:"body_base64,omitempty"`
	ContentType string            `json:"content_type,omitempty"`
	URL         string            `json:"url,omitempty"`      // the receiver's address, if the route's target is notice
	Audience    string            `json:"audience,omitempty"` // the receiver, if the route signs per audience
	Headers     map[string]string `json:"headers,omitempty"`
	Method      string            `json:"method,omitempty"`       // POST, PUT or GET
	Retry       string            `json:"retry,omitempty"`        // "15s,3m,10m", "none" or a preset; see Ladder
	OnDuplicate string            `json:"on_duplicate,omitempty"` // Reject (the default), Keep or Replace
	// Expires is the time from which no attempt begins any more, and ExpiresAfter that time as a duration after the due time. Set at
	// most one of them. The notice is then dead with the reason expired. Without both, the route decides.
	Expires      time.Time     `json:"-"`
	ExpiresAfter time.Duration `json:"-"`
}

// Values of Request.OnDuplicate: the action if the key has a notice with different content. If the
// content is the same, a schedule call changes nothing.
const (
	Reject  = "reject"  // the call fails with 409
	Keep    = "keep"    // the existing notice stays, without an error
	Replace = "replace" // the new notice replaces the existing one
)

// Ladder formats delays between attempts for Request.Retry. Without delays a notice has one attempt.
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

// MarshalJSON returns the request with its body. Package json then removes white space from the body;
// [Client.Schedule] does not.
func (r Request) MarshalJSON() ([]byte, error) { return r.Line() }

// Line returns the request as JSON, with the body byte for byte. The result is one line, as
// [Client.ScheduleLines] needs it, if the body has no line break.
func (r Request) Line() ([]byte, error) {
	type plain Request
	b, err := json.Marshal(struct {
		plain
		Delay   string `json:"delay,omitempty"`
		Due     string `json:"due,omitempty"`
		Expires string `json:"expires,omitempty"`
	}{plain(r), delay(r.Delay), instant(r.Due), cmp.Or(instant(r.Expires), delay(r.ExpiresAfter))})
	if err != nil {
		return nil, fmt.Errorf("encode the notice: %w", err)
	}
	if !r.Expires.IsZero() && r.ExpiresAfter != 0 {
		return nil, errors.New("both Expires and ExpiresAfter are set; set one of them")
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

// Schedule schedules a notice, a callback at a later time, and returns it. The call may be repeated, unless
// r.OnDuplicate is [Replace]: if a notice with the same key and content exists, Schedule returns that notice.
// [Notice.NotSent] says if it will not be sent. The content is all of r but Delay, Due, ExpiresAfter and OnDuplicate. A Due is
// compared too, with the due time that the notice got when it was created; another one is a [Problem] with Differs
// "due". If the service has already deleted the notice's data, the returned State is [Settled]. When NOTIFIER_REPEAT_WINDOW has
// passed since the end of the notice, a repeated call may schedule a second one.
func (c *Client) Schedule(ctx context.Context, r Request) (*Notice, error) {
	body, err := r.Line()
	if err != nil {
		return nil, err
	}

	n := &Notice{}
	return n, c.into(ctx, request{method: "POST", path: []string{"v1", "notices"}, body: body, idempotent: r.OnDuplicate != Replace}, n)
}

// Result is the result of one request of a batch.
type Result struct {
	Key      string   `json:"key"`
	Status   int      `json:"status"`
	Created  bool     `json:"created"`
	Replaced bool     `json:"replaced"`
	Notice   *Notice  `json:"notice"` // without its body; nil if there is a Problem
	Problem  *Problem `json:"problem"`
}

// LinesOption is an option of [Client.ScheduleLines].
type LinesOption func(*request)

// Repeatable declares that no line has "on_duplicate": "replace". The client then retries a call whose
// answer was lost.
func Repeatable() LinesOption { return func(r *request) { r.idempotent = true } }

// ScheduleLines schedules up to 1,000 notices, each as one line of JSON.
func (c *Client) ScheduleLines(ctx context.Context, lines [][]byte, options ...LinesOption) ([]Result, error) {
	r := request{method: "POST", path: []string{"v1", "notices", "batch"}}
	for _, o := range options {
		o(&r)
	}

	return c.lines(ctx, r, lines)
}

// RestoreLines restores up to 1,000 notices, for example from a backup. Each line is one pending or dead notice as
// JSON, as GET /v1/notices returns it. A dead notice may also be in the form of the history, or of a download from the
// dashboard. The call may be repeated.
func (c *Client) RestoreLines(ctx context.Context, lines [][]byte) ([]Result, error) {
	return c.lines(ctx, request{method: "POST", path: []string{"v1", "notices", "restore"}, idempotent: true}, lines)
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
			return nil, fmt.Errorf("cannot decode the answer to a batch: %w", err)
		}

		out = append(out, r)
	}

	if len(out) != len(lines) {
		return nil, fmt.Errorf("the answer to a batch of %d has %d results", len(lines), len(out))
	}

	return out, nil
}

// Get returns a notice.
func (c *Client) Get(ctx context.Context, key string) (*Notice, error) {
	n := &Notice{}
	return n, c.into(ctx, request{method: "GET", path: []string{"v1", "notices", key}, idempotent: true}, n)
}

// Cancel cancels a notice.
func (c *Client) Cancel(ctx context.Context, key string) (*Notice, error) {
	n := &Notice{}
	return n, c.into(ctx, request{method: "DELETE", path: []string{"v1", "notices", key}, idempotent: true}, n)
}

// Reschedule changes the due time of a scheduled notice.
func (c *Client) Reschedule(ctx context.Context, key string, due time.Time) (*Notice, error) {
	return c.reschedule(ctx, key, map[string]string{"due": due.UTC().Format(time.RFC3339Nano)})
}

// RescheduleIn makes a scheduled notice due after a delay, by the service's clock.
func (c *Client) RescheduleIn(ctx context.Context, key string, delay time.Duration) (*Notice, error) {
	return c.reschedule(ctx, key, map[string]string{"delay": delay.String()})
}

func (c *Client) reschedule(ctx context.Context, key string, to map[string]string) (*Notice, error) {
	n := &Notice{}
	return n, c.send(ctx, request{method: "PATCH", path: []string{"v1", "notices", key}, idempotent: true}, to, n)
}

// delay formats a duration; 0 becomes "".
func delay(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}

// instant formats a time; the zero time becomes "".
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

// Report is a consumer's outcome of an attempt of a list or stream. Attempt and ID are from the entry.
// They prevent a report on another notice of the same key.
type Report struct {
	Attempt   int           `json:"attempt"`
	ID        string        `json:"id"`
	Response  string        `json:"response,omitempty"`
	Permanent bool          `json:"permanent,omitempty"` // of Nack: no further attempt
	After     time.Duration `json:"-"`                   // of Defer; 0 = the service's default
}

// MarshalJSON formats After for the API.
func (r Report) MarshalJSON() ([]byte, error) {
	type plain Report
	return json.Marshal(struct {
		plain
		After string `json:"after,omitempty"`
	}{plain(r), delay(r.After)})
}

// Ack reports success. It is idempotent.
func (c *Client) Ack(ctx context.Context, key string, r Report) (*Notice, error) {
	return c.report(ctx, key, "ack", r)
}

// Nack reports failure. It is idempotent.
func (c *Client) Nack(ctx context.Context, key string, r Report) (*Notice, error) {
	return c.report(ctx, key, "nack", r)
}

// Defer returns an unfinished notice to its list or stream, to be received again later with the same attempt number.
// Defer is not idempotent, so the client does not retry it if the answer is lost.
func (c *Client) Defer(ctx context.Context, key string, r Report) (*Notice, error) {
	return c.report(ctx, key, "defer", r)
}

func (c *Client) report(ctx context.Context, key, verb string, r Report) (*Notice, error) {
	n := &Notice{}
	return n, c.send(ctx, request{method: "POST", path: []string{"v1", "notices", key, verb}, idempotent: verb != "defer"}, r, n)
}

func (c *Client) act(ctx context.Context, key, verb string) (*Notice, error) {
	n := &Notice{}
	return n, c.into(ctx, request{method: "POST", path: []string{"v1", "notices", key, verb}}, n)
}

// Query filters a listing. Empty fields do not filter.
type Query struct {
	Route  string
	Prefix string // app, app:module or app:module:type
	State  State
	// Waiting selects notices that are due while another one of their sequence comes first; the longest wait first.
	Waiting bool
	Reason  string // of dead letters
	Status  int    // of dead letters with that reason: the HTTP status of the last attempt
	Host    string // the host that the notices go to
	Since   time.Time
	Until   time.Time // exclusive
	Cursor  string    // of the previous page
	Limit   int       // notices per page
}

func (q Query) values() url.Values {
	v := filled(url.Values{}, map[string]string{"route": q.Route, "prefix": q.Prefix, "state": string(q.State), "reason": q.Reason,
		"host": q.Host, "since": instant(q.Since), "until": instant(q.Until), "cursor": q.Cursor, "status": counted(q.Status),
		"limit": counted(q.Limit)})
	if q.Waiting {
		v.Set("waiting", "true")
	}

	return v
}

// filled sets the parameters that have a value.
func filled(v url.Values, parameters map[string]string) url.Values {
	for name, s := range parameters {
		if s != "" {
			v.Set(name, s)
		}
	}

	return v
}

// counted returns a number as a parameter; empty without one.
func counted(n int) string {
	if n <= 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// Page is one page of a listing.
type Page struct {
	Raw
	Items  []Notice `json:"items"`
	Cursor string   `json:"cursor"`
	// Missing lists the nodes of a Redis cluster that do not answer. Their notices are not in this page,
	// nor in the pages after it.
	Missing []string `json:"missing"`
}

// List returns a page of a listing.
func (c *Client) List(ctx context.Context, q Query) (*Page, error) {
	p := &Page{}
	return p, c.into(ctx, request{method: "GET", path: []string{"v1", "notices"}, query: q.values(), idempotent: true}, p)
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

	OnStatus   string `json:"on_status"`   // 401:pause,404:dead; empty = no rule
	PauseAfter string `json:"pause_after"` // of failures; empty = never
}

// Routes lists the routes.
func (c *Client) Routes(ctx context.Context) ([]Route, error) {
	var all struct {
		Raw
		Items []Route `json:"items"`
	}
	err := c.into(ctx, request{method: "GET", path: []string{"v1", "routes"}, idempotent: true}, &all)
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
	return r, c.into(ctx, request{method: "POST", path: []string{"v1", "routes", route, verb}, idempotent: true}, r)
}

// Stats is the answer to GET /v1/stats.
type Stats struct {
	Raw
	Routes []RouteNumbers `json:"routes"`
	// Missing lists the nodes of a Redis cluster that do not answer. Their notices are not counted.
	Missing []string `json:"missing"`
}

// RouteNumbers are the statistics of a route. InFlight, Outcomes and the latencies are those of the
// answering instance; Outcomes count from its start.
type RouteNumbers struct {
	Route         string           `json:"route"`
	Prefix        string           `json:"prefix"`
	Configured    bool             `json:"configured"` // false: Redis has notices under a prefix without a route
	Recorded      bool             `json:"recorded"`   // for workers: no route delivers the notices
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

// Stats returns the statistics of each route.
func (c *Client) Stats(ctx context.Context) (*Stats, error) {
	s := &Stats{}
	return s, c.into(ctx, request{method: "GET", path: []string{"v1", "stats"}, idempotent: true}, s)
}

// Instance is one process of the service.
type Instance struct {
	ID           string    `json:"id"`
	Label        string    `json:"label"` // NOTIFIER_INSTANCE; several may have the same
	Version      string    `json:"version"`
	State        string    `json:"state"` // living, leaving or silent (unresponsive)
	Self         bool      `json:"self"`  // the answering instance
	Started      time.Time `json:"started"`
	Seen         time.Time `json:"seen"`        // its last heartbeat
	TakeoverMS   int64     `json:"takeover_ms"` // time without heartbeats after which its claims are reclaimed; 0 = when their leases end
	Limits       string    `json:"limits"`      // fleet or instance
	RoutesDiffer []string  `json:"routes_differ"`
}

// Instances is the answer to GET /v1/instances.
type Instances struct {
	Raw
	Items []Instance `json:"items"`
}

// Instances lists the instances of the service, latest heartbeat first. It needs the token of a client
// without a prefix.
func (c *Client) Instances(ctx context.Context) (*Instances, error) {
	l := &Instances{}
	return l, c.into(ctx, request{method: "GET", path: []string{"v1", "instances"}, idempotent: true}, l)
}

// Health is the answer to GET /readyz.
type Health struct {
	Raw
	Ready    bool     `json:"ready"`
	Degraded bool     `json:"degraded"`
	Reasons  []string `json:"reasons"`
}

// Ready returns the health of the service. It returns no error if the service answers that it is not
// ready.
func (c *Client) Ready(ctx context.Context) (*Health, error) {
	h := &Health{}
	return h, c.into(ctx, request{method: "GET", path: []string{"readyz"}, idempotent: true, accepted: http.StatusServiceUnavailable}, h)
}

// Receiver selects a receiver of a route. Host is set if the route signs per host, Audience if it signs
// per audience.
type Receiver struct {
	Route    string
	Host     string // shop.example, without scheme, port and path
	Audience string
}

// ReceiverSecret has the keys with which a receiver verifies signatures.
type ReceiverSecret struct {
	Raw
	Route    string           `json:"route"`
	SignPer  string           `json:"sign_per"`
	Host     string           `json:"host"`
	Audience string           `json:"audience"`
	Secrets  []string         `json:"secrets"` // whsec_…, one for each secret of the route, newest first
	Schemes  []ReceiverScheme `json:"schemes"`
}

// ReceiverScheme is a signature scheme of callbacks, with the public keys that verify it.
type ReceiverScheme struct {
	Scheme    string        `json:"scheme"`    // its name in package webhook
	Headers   []string      `json:"headers"`   // the headers of the signature
	Algorithm string        `json:"algorithm"` // a description
	Signed    string        `json:"signed"`    // a description of the signed text
	Warning   string        `json:"warning"`   // attacks that the scheme does not prevent
	TextKey   string        `json:"text_key"`  // of sorted and sorted-jeepay, if each receiver has its own
	Keys      []ReceiverKey `json:"keys"`      // empty if the scheme uses secrets
}

// ReceiverKey is a public key of the sender.
type ReceiverKey struct {
	ID          string `json:"id"`
	Signs       bool   `json:"signs"`       // the key signs now; false: it did before, or will later
	PublicKey   string `json:"public_key"`  // PEM
	Certificate string `json:"certificate"` // PEM; empty = none
	Standard    string `json:"standard"`    // whpk_…, of an Ed25519 key
}

// ReceiverSecret returns the keys to give to a receiver. It needs the token of a client with the role
// admin and without a prefix.
func (c *Client) ReceiverSecret(ctx context.Context, r Receiver) (*ReceiverSecret, error) {
	q := filled(url.Values{}, map[string]string{"host": r.Host, "audience": r.Audience})
	out := &ReceiverSecret{}
	return out, c.into(ctx, request{method: "GET", path: []string{"v1", "routes", r.Route, "secret"}, query: q, idempotent: true}, out)
}
