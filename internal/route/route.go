package route

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/sign"
)

// Kind is what a route's target is.
type Kind string

// The kinds of target.
const (
	KindFixed  Kind = "url"    // one address for all notices of the route
	KindNotice Kind = "notice" // each notice brings its url
	KindList   Kind = "list"   // a Redis list, for BLPOP consumers
	KindStream Kind = "stream" // a Redis stream, for consumer groups
	KindLog    Kind = "log"    // a log line and nothing else
)

// Target says where a route's notices go.
type Target struct {
	Kind   Kind
	URL    *url.URL // of KindFixed
	Key    string   // of KindList and KindStream
	MaxLen int64    // of KindStream; 0 = unbounded
}

// ParseTarget reads http(s)://…, notice, list:<key>, stream:<key> and log.
func ParseTarget(s string) (Target, error) {
	switch {
	case s == "notice":
		return Target{Kind: KindNotice}, nil
	case s == "log":
		return Target{Kind: KindLog}, nil
	case strings.HasPrefix(s, "list:") && len(s) > 5:
		return Target{Kind: KindList, Key: s[5:]}, nil
	case strings.HasPrefix(s, "stream:") && len(s) > 7:
		return Target{Kind: KindStream, Key: s[7:]}, nil
	case strings.HasPrefix(s, "http://"), strings.HasPrefix(s, "https://"):
		if err := notice.CheckURL(s); err != nil {
			return Target{}, err
		}
		u, err := url.Parse(s)
		if err != nil { // CheckURL has read it; the error would quote a password
			return Target{}, errors.New("an address that cannot be read; want http://host/path or https://host/path")
		}
		return Target{Kind: KindFixed, URL: u}, nil
	}
	return Target{}, fmt.Errorf("not a target; want http(s)://…, notice, list:<key>, stream:<key> or log")
}

// AckKind is which part of an answer acknowledges.
type AckKind string

// The kinds of acknowledgement.
const (
	Ack2xx    AckKind = "2xx"
	AckStatus AckKind = "status"
	AckBody   AckKind = "body"
	AckJSON   AckKind = "json"
	// AckReport is of lists and streams: the consumer reports within the
	// route's timeout. Otherwise a push is a delivery.
	AckReport AckKind = "report"
)

// Ack is a route's rule of acknowledgement.
type Ack struct {
	Kind   AckKind
	Status []int    // of AckStatus
	Body   string   // of AckBody: the whole body after trimming white space
	Path   []string // of AckJSON: data.code = ["data","code"]
	Value  string   // of AckJSON
}

// ParseAck reads 2xx, status:200,204, body:success, json:code=SUCCESS and
// report.
func ParseAck(s string) (Ack, error) {
	bad := fmt.Errorf("%q is no acknowledgement; want 2xx, status:200,204, body:success, json:code=SUCCESS or report", s)
	kind, rest, has := strings.Cut(s, ":")
	switch {
	case s == "2xx":
		return Ack{Kind: Ack2xx}, nil
	case s == "report":
		return Ack{Kind: AckReport}, nil
	case kind == "status" && has:
		var codes []int
		for f := range strings.SplitSeq(rest, ",") {
			n, err := strconv.Atoi(strings.TrimSpace(f))
			if err != nil || n < 200 || n > 299 {
				return Ack{}, fmt.Errorf("%q: %q is no status from 200 to 299", s, f)
			}
			codes = append(codes, n)
		}
		return Ack{Kind: AckStatus, Status: codes}, nil
	case kind == "body" && strings.TrimSpace(rest) != "":
		return Ack{Kind: AckBody, Body: strings.TrimSpace(rest)}, nil
	case kind == "json" && has:
		path, value, ok := strings.Cut(rest, "=")
		if !ok || path == "" || value == "" {
			return Ack{}, bad
		}
		parts := strings.Split(path, ".")
		if slices.Contains(parts, "") {
			return Ack{}, bad
		}
		if !utf8.ValidString(rest) {
			return Ack{}, fmt.Errorf("%q is not UTF-8, which no JSON fits", s)
		}
		return Ack{Kind: AckJSON, Path: parts, Value: value}, nil
	}
	return Ack{}, bad
}

// String spells the rule the way ParseAck reads it.
func (a Ack) String() string {
	switch a.Kind {
	case AckStatus:
		s := make([]string, len(a.Status))
		for i, n := range a.Status {
			s[i] = strconv.Itoa(n)
		}
		return "status:" + strings.Join(s, ",")
	case AckBody:
		return "body:" + a.Body
	case AckJSON:
		return "json:" + strings.Join(a.Path, ".") + "=" + a.Value
	}
	if a.Kind == AckReport {
		return "report"
	}
	return "2xx"
}

// Route is what the configuration says of one key prefix. The zero value of a
// limit means none.
type Route struct {
	Name            string // the name in NOTIFIER_ROUTES, lower case
	Prefix          string
	Target          Target
	Ladder          notice.Ladder
	Jitter          float64
	Timeout         time.Duration
	Ack             Ack
	Concurrency     int
	HostConcurrency int
	Rate            float64 // a second; 0 = unlimited
	// Sign are the schemes that sign, empty = what Signing says. Secrets and SignKeys are their keys.
	Sign        []sign.Scheme
	Secrets     []sign.Secret
	SignPer     sign.Per // empty = what Signs says
	SignKeys    []*sign.Key
	SignHeaders sign.Headers
	OAuth2      *OAuth2 // nil = calls carry no access token
	Headers     []notice.Header
	HeadersTo   Origins // of KindNotice: the origins that get Headers and access tokens
	Allow       Allow   // what a notice target may reach although private
	HTTPSOnly   bool
	Adopt       bool
	CAFile      string
	CertFile    string
	KeyFile     string
	Proxy       *Proxy // of outbound calls; nil = none
	Method      string // empty = POST
}

// Acknowledgement names the event that acknowledges a delivery: the rule for an answer, a
// consumer's report, or, where the target does not answer, the push or the log line.
func (r *Route) Acknowledgement() string {
	switch {
	case r.Target.Kind == KindLog:
		return "log line"
	case (r.Target.Kind == KindList || r.Target.Kind == KindStream) && r.Ack.Kind != AckReport:
		return "push"
	}
	return r.Ack.String()
}

// Margin is what a lease has over the handler's timeout: time to settle, and
// room for a Redis that is slow at the wrong moment.
const Margin = 5 * time.Second

// Lease is how long a claim of this route lives. A consumer of a list or stream
// reports within the route's timeout, which is its lease likewise.
func (r *Route) Lease() time.Duration { return r.Timeout + Margin }

// Slots is how many attempts of this route may be under way at once. A fixed
// target is one host, and what its limit refuses would only be claimed and put
// off: it stays in the shadow instead, and is on time when a slot is free.
func (r *Route) Slots() int {
	if r.Target.Kind == KindFixed && r.HostConcurrency > 0 && (r.Concurrency == 0 || r.HostConcurrency < r.Concurrency) {
		return r.HostConcurrency
	}
	return r.Concurrency
}

// Table finds the route of a key. It never changes once made.
type Table struct {
	routes []*Route // in the order given
	byName map[string]*Route
	bySpan map[string]*Route // prefix → route
}

// NewTable makes a table; names and prefixes must be unique.
func NewTable(routes []*Route) (*Table, error) {
	t := &Table{routes: routes, byName: map[string]*Route{}, bySpan: map[string]*Route{}}
	for _, r := range routes {
		if err := keys.CheckPrefix(r.Prefix); err != nil {
			return nil, fmt.Errorf("route %s: %w", r.Name, err)
		}
		if other := t.bySpan[r.Prefix]; other != nil {
			return nil, fmt.Errorf("routes %s and %s both have the prefix %s", other.Name, r.Name, r.Prefix)
		}
		if t.byName[r.Name] != nil {
			return nil, fmt.Errorf("two routes are named %s", r.Name)
		}
		t.byName[r.Name], t.bySpan[r.Prefix] = r, r
	}
	return t, nil
}

// Match is the route of a notice key, nil if none covers it. The key must be
// valid. It does not allocate.
func (t *Table) Match(key string) *Route {
	end := len(key)
	for range 3 {
		end = strings.LastIndexByte(key[:end], ':')
		if end < 0 {
			return nil
		}
		if r := t.bySpan[key[:end]]; r != nil {
			return r
		}
	}
	return nil
}

// Name is the route of that name, or nil.
func (t *Table) Name(name string) *Route { return t.byName[name] }

// Prefix is the route of exactly that prefix, or nil.
func (t *Table) Prefix(prefix string) *Route { return t.bySpan[prefix] }

// All lists the routes in the order given.
func (t *Table) All() []*Route { return t.routes }
