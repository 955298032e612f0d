package route

import (
	"fmt"
	"net/url"
	"strings"
	"time"

	"notifier/internal/notice"
	"notifier/internal/seal"
	"notifier/internal/sign"
)

// Kind is the kind of a route's target.
type Kind string

// The kinds of target.
const (
	KindFixed  Kind = "url"    // one address for all notices of the route
	KindNotice Kind = "notice" // each notice brings its url
	KindList   Kind = "list"   // a Redis list, for BLPOP consumers
	KindStream Kind = "stream" // a Redis stream, for consumer groups
	KindLog    Kind = "log"    // a log line and nothing else
	KindWorker Kind = "worker" // a handler inside the instance's program, set by package worker
)

// Target is the destination of a route's notices.
type Target struct {
	Kind   Kind
	URL    *url.URL // of KindFixed
	Key    string   // of KindList and KindStream
	MaxLen int64    // of KindStream; 0 = unbounded
	Secret bool     // only the origin of URL may be shown
}

// Shown returns the part of URL that may be shown, as a URL of its own.
func (t *Target) Shown() *url.URL {
	if !t.Secret || t.URL == nil {
		return t.URL
	}
	return &url.URL{Scheme: t.URL.Scheme, Host: t.URL.Host}
}

// ParseTarget parses http(s)://…, notice, list:<key>, stream:<key> and log.
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
		s, err := notice.CanonicalURL(s)
		if err != nil {
			return Target{}, err
		}

		u, _ := url.Parse(s) // CanonicalURL has parsed it
		return Target{Kind: KindFixed, URL: u}, nil
	}

	return Target{}, fmt.Errorf("not a target; want http(s)://…, notice, list:<key>, stream:<key> or log")
}

// Route is the configuration of one key prefix. A limit of zero means no limit.
type Route struct {
	Name            string // the name in NOTIFIER_ROUTES, lower case
	Prefix          string
	Target          Target
	Ladder          notice.Ladder
	Jitter          float64
	Expires         time.Duration // after the first due time, of notices that do not say when they expire; 0 = never
	Timeout         time.Duration
	Ack             Ack
	OnStatus        OnStatus      // of answers that do not acknowledge
	PauseAfter      time.Duration // of failures without a success, after which a receiver is paused; 0 = never
	Concurrency     int
	Weight          int // among routes that wait for slots of the process; 0 = 1
	HostConcurrency int
	Rate            float64 // per second; 0 = unlimited
	// Sign are the signature schemes; empty = the default of Signing. Secrets and SignKeys are their keys.
	Sign        []sign.Scheme
	Secrets     []sign.Secret
	TextKey     sign.Secret // of the schemes sorted and sorted-jeepay
	SignPer     sign.Per    // empty = the default of Signs
	SignKeys    []*sign.Key
	SignHeaders sign.Headers
	OAuth2      *OAuth2 // nil = calls carry no access token
	Headers     []notice.Header
	HeadersTo   Origins // of KindNotice: the origins that get Headers and access tokens
	Allow       Allow   // private hosts and networks that a notice's url may reach
	HTTPSOnly   bool
	Adopt       bool
	Seal        seal.Scope // of the subjects whose keys seal the notices; empty = they are not sealed
	// SealURL means that the query and the fragment of a notice's url are sealed too.
	SealURL bool
	// OpenEntries is set if the entries of sealed notices have the clear content. See [Route.KeepsSealed].
	OpenEntries bool
	Order       Order
	// OnDead is the route that gets a notice of each dead letter; nil = none. OnDeadBody is the maximum length
	// of that notice's body with the dead letter's body in it; 0 = without.
	OnDead     *Route
	OnDeadBody int64
	// DeadRetention is how long dead letters are kept, and DeadKeep how many; 0 = no limit.
	DeadRetention time.Duration
	DeadKeep      int64
	OnDown        time.Duration // after which OnDead gets a notice of a failing receiver; 0 = never
	Robot         *Robot        // of a hook that gets messages for a team; nil = the hook gets a notice of each dead letter
	CAFile        string
	CertFile      string
	KeyFile       string
	Proxy         *Proxy // of outbound calls; nil = none
	HTTP1         bool   // without HTTP/2
	// TLSCompatible means TLS 1.0 to 1.2 and HTTP/1.1, for older receivers.
	TLSCompatible bool
	Method        string // empty = POST
	// Recorded is true for a route that the table has only because its prefix is recorded: workers handle its notices,
	// and this instance must not. See [Table.SetRecorded].
	Recorded bool
}

// MaxAttempts returns the number of the last attempt of a notice; 0 = attempts are made until it expires, or the ladder is that of a
// worker, which this instance does not know. r may be nil.
func (r *Route) MaxAttempts(n *notice.Notice) int {
	switch {
	case r == nil:
		return n.MaxAttempts(nil)
	case r.Recorded && n.Ladder == nil:
		return 0
	}
	return n.MaxAttempts(r.Ladder)
}

// Local reports whether the route writes entries of a list or stream, or log lines, and calls nobody.
func (r *Route) Local() bool {
	return r.Target.Kind == KindList || r.Target.Kind == KindStream || r.Target.Kind == KindLog
}

// KeepsSealed reports whether an attempt leaves a sealed notice sealed, so that it needs no key.
func (r *Route) KeepsSealed() bool { return r.Local() && !r.OpenEntries }

// Rules reports whether a setting of the route can pause a receiver.
func (r *Route) Rules() bool { return r.PauseAfter > 0 || r.OnStatus.Pauses() }

// Acknowledgement names the event that acknowledges a delivery: the rule for an answer, a consumer's report
// or, for a target that does not answer, the push or the log line.
func (r *Route) Acknowledgement() string {
	switch {
	case r.Target.Kind == KindLog:
		return "log line"
	case r.Target.Kind == KindWorker:
		return "handler"
	case (r.Target.Kind == KindList || r.Target.Kind == KindStream) && r.Ack.Kind != AckReport:
		return "push"
	}
	return r.Ack.String()
}

// Margin is the difference between a lease and the handler's timeout. It is the time to settle, even while
// Redis is slow.
const Margin = 5 * time.Second

// Lease returns how long a claim of this route is valid. A consumer of a list or stream reports within the
// route's timeout, so its lease is the same.
func (r *Route) Lease() time.Duration { return r.Timeout + Margin }

// Slots returns the maximum number of concurrent attempts of this route at one instance. If the route calls a single
// host, it is at most the limit of that host.
func (r *Route) Slots() int {
	// Otherwise notices above the host's limit would be claimed only to be deferred.
	if r.Target.Kind == KindFixed && r.HostConcurrency > 0 && (r.Concurrency == 0 || r.HostConcurrency < r.Concurrency) {
		return r.HostConcurrency
	}
	return r.Concurrency
}
