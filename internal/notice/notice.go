// Package notice holds the vocabulary of this service: the notice, its state,
// the attempts made, the ladder of delays, and what an attempt comes to.
//
// It does no I/O and imports nothing of this module: everything above it may
// speak these words.
package notice

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// State is where a notice stands. It is not stored: it follows from which zset
// holds the notice and from the score it has there.
//
//	scheduled → claimed → delivered | scheduled (retry) | dead
//	scheduled | claimed → cancelled;  dead → scheduled (redrive)
type State string

// The states.
const (
	Scheduled State = "scheduled"
	Claimed   State = "claimed"
	Delivered State = "delivered"
	Cancelled State = "cancelled"
	Dead      State = "dead"
)

// States lists every state.
var States = []State{Scheduled, Claimed, Delivered, Cancelled, Dead}

// Outcome is what an attempt comes to.
type Outcome string

// The outcomes. Deferred uses no attempt.
const (
	OutcomeDelivered Outcome = "delivered"
	OutcomeRetry     Outcome = "retry"
	OutcomeDead      Outcome = "dead"
	OutcomeDeferred  Outcome = "deferred"
)

// Outcomes lists every outcome.
var Outcomes = []Outcome{OutcomeDelivered, OutcomeRetry, OutcomeDead, OutcomeDeferred}

// Reason says why an attempt was no delivery, from a closed set: it is a
// metric label and a filter of the API. It is empty for a plain delivery.
type Reason string

// The reasons.
const (
	ReasonDNS         Reason = "dns"          // the host's name was not found
	ReasonConnect     Reason = "connect"      // no connection: refused, unreachable
	ReasonTLS         Reason = "tls"          // handshake or certificate
	ReasonTimeout     Reason = "timeout"      // no whole answer within the route's timeout
	ReasonReset       Reason = "reset"        // the connection broke amid the exchange
	ReasonProtocol    Reason = "protocol"     // the answer was no valid HTTP
	ReasonStatus4xx   Reason = "status_4xx"   // refused with a 4xx
	ReasonStatus5xx   Reason = "status_5xx"   // refused with a 5xx
	ReasonStatus      Reason = "status"       // any other status that does not acknowledge
	ReasonAckMismatch Reason = "ack_mismatch" // a status that would do, a body that does not
	ReasonRedirect    Reason = "redirect"     // a 3xx; redirects are not followed
	ReasonTooLarge    Reason = "too_large"    // more answer than is read, where the ack needs it all
	ReasonBlocked     Reason = "blocked"      // the target's address may not be called
	ReasonInvalid     Reason = "invalid"      // the notice cannot be sent as it is: no url, bad header
	ReasonGone        Reason = "gone"         // 410: the receiver wants it no more
	ReasonAborted     Reason = "aborted"      // webhook-delivery: abort-message
	ReasonPanic       Reason = "panic"        // the handler panicked
	ReasonInterrupted Reason = "interrupted"  // the instance died, or lost Redis for a whole lease
	ReasonExhausted   Reason = "exhausted"    // attempts were lost until none was left
	ReasonRejected    Reason = "rejected"     // a consumer reported failure
	ReasonUnreported  Reason = "unreported"   // a consumer took it and reported nothing in time
	ReasonQueue       Reason = "queue"        // the list or stream could not take it
	ReasonLocked      Reason = "locked"       // 423, or a consumer's exit code 75: put off
	ReasonBusy        Reason = "busy"         // deferred: host or rate limit
	ReasonBreaker     Reason = "breaker"      // deferred: the host's breaker is open
	ReasonShutdown    Reason = "shutdown"     // deferred: this instance is stopping
)

// Reasons lists the closed set.
var Reasons = []Reason{
	ReasonDNS, ReasonConnect, ReasonTLS, ReasonTimeout, ReasonReset, ReasonProtocol, ReasonStatus4xx, ReasonStatus5xx,
	ReasonStatus, ReasonAckMismatch, ReasonRedirect, ReasonTooLarge, ReasonBlocked, ReasonInvalid, ReasonGone,
	ReasonAborted, ReasonPanic, ReasonInterrupted, ReasonExhausted, ReasonRejected, ReasonUnreported, ReasonQueue,
	ReasonLocked, ReasonBusy, ReasonBreaker, ReasonShutdown,
}

// Limits of what is kept.
const (
	KeptAttempts = 20  // the last attempts of a notice
	KeptResponse = 512 // bytes of a response
)

// Attempt is one try that was made and what it came to.
type Attempt struct {
	N        int           // 1, 2, …; of all attempts, not of those kept
	At       time.Time     // when the handler began
	Duration time.Duration // how long it took, kept to the millisecond
	Status   int           // HTTP status, 0 = none came
	Reason   Reason        // empty = delivered
	Response string        // the response's beginning, or the error's text; at most KeptResponse bytes
}

// Header is one header of a callback. Order is kept.
type Header struct{ Name, Value string }

// Content is what the producer asked to be sent, and to where. It never
// changes after the schedule call; a replace makes a new notice.
type Content struct {
	URL         string
	ContentType string // empty = application/json for a JSON body, none otherwise
	Body        []byte
	Headers     []Header
	Ladder      Ladder // nil = the route's
	Method      string // empty = POST
	Traceparent string
	// Lost marks an adopted timer that expired before its value could be read.
	Lost bool
}

// Notice is one delayed message with everything known of it.
type Notice struct {
	Key    string
	Route  string // the route's prefix in Redis
	Made   time.Time
	Due    time.Time // when the coming (or last) attempt is (was) due
	Locked int       // times put off because of a lock, since the last attempt
	// Handed: a list or stream has it, and its consumer's report is awaited.
	Handed bool

	Content

	// Used is the number of attempts made. Attempts holds the last of them.
	Used     int
	Attempts []Attempt
	// Redriven is the number of attempts made before the last redrive: the
	// ladder begins there.
	Redriven int
	// Reason is why it is dead; empty otherwise.
	Reason Reason

	// kept is the content as it stood in the record this was read from. A
	// notice's content never changes.
	kept string
	// inline: that record holds the body as JSON.
	inline bool
}

// StampLayout is how times are written for others to read, in UTC: RFC 3339
// with milliseconds, which is how exactly they are kept.
const StampLayout = "2006-01-02T15:04:05.000Z"

// Stamp writes a time after StampLayout.
func Stamp(t time.Time) string { return t.UTC().Format(StampLayout) }

// Coming is the number of the coming attempt, from 1.
func (n *Notice) Coming() int { return n.Used + 1 }

// ID is the webhook-id: the same for every attempt and redrive of a notice,
// different for another notice under the same key. It holds no dot.
func (n *Notice) ID() string {
	sum := sha256.Sum256(strconv.AppendInt(append([]byte(n.Key), '|'), n.Made.UnixMilli(), 10))
	return "msg_" + hex.EncodeToString(sum[:13])
}

// Step is the delay before the attempt after the coming one, and false when
// the ladder, counted from the last redrive, is used up.
func (n *Notice) Step(route Ladder) (time.Duration, bool) {
	l := route
	if n.Ladder != nil {
		l = n.Ladder
	}
	i := n.Used - n.Redriven
	if i < 0 || i >= len(l) {
		return 0, false
	}
	return l[i], true
}

// Add counts an attempt and keeps the last KeptAttempts.
func (n *Notice) Add(a Attempt) {
	n.Used = a.N
	n.Attempts = append(n.Attempts, a)
	if over := len(n.Attempts) - KeptAttempts; over > 0 {
		n.Attempts = n.Attempts[over:]
	}
}

// Diff names the fields of c that differ from other's, in the API's words.
// Empty means the same content.
func (c *Content) Diff(other *Content) []string {
	var d []string
	if c.URL != other.URL {
		d = append(d, "url")
	}
	if string(c.Body) != string(other.Body) {
		d = append(d, "body")
	}
	if c.ContentType != other.ContentType {
		d = append(d, "content_type")
	}
	if method(c.Method) != method(other.Method) {
		d = append(d, "method")
	}
	if !equal(c.Headers, other.Headers) {
		d = append(d, "headers")
	}
	if (c.Ladder == nil) != (other.Ladder == nil) || !equal(c.Ladder, other.Ladder) {
		d = append(d, "retry")
	}
	return d
}

func method(m string) string {
	if m == "" {
		return "POST"
	}
	return m
}

func equal[T comparable](a, b []T) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// Result is what a handler makes of one attempt.
type Result struct {
	Outcome  Outcome
	Reason   Reason
	Status   int
	Response string // cut to KeptResponse when it is kept
	// After is the earliest the next try may come: Retry-After for a retry
	// (never less than the ladder's step), how long to put off for a deferral.
	After time.Duration
	// Push, if not nil, is handed to a list or stream by the settle itself.
	Push *Push
}

// Push is an entry that the settle hands to a list or stream in the same
// script.
type Push struct {
	Stream bool
	Key    string
	MaxLen int64 // of a stream, approximate; 0 = unbounded
	// Entry is the list's element, or field, value, … of a stream's entry.
	Entry []string
}

// DeliveredResult is a plain acknowledged delivery.
func DeliveredResult(status int) Result { return Result{Outcome: OutcomeDelivered, Status: status} }

// RetryResult is a failure that another attempt may mend.
func RetryResult(r Reason, detail string) Result {
	return Result{Outcome: OutcomeRetry, Reason: r, Response: detail}
}

// DeadResult is a failure that no attempt will mend.
func DeadResult(r Reason, detail string) Result {
	return Result{Outcome: OutcomeDead, Reason: r, Response: detail}
}

// DeferredResult puts a notice off without using an attempt.
func DeferredResult(r Reason, after time.Duration, detail string) Result {
	return Result{Outcome: OutcomeDeferred, Reason: r, After: after, Response: detail}
}

// Kept cuts s to what is kept of a response, at a rune's border.
func Kept(s string) string {
	if len(s) <= KeptResponse {
		return s
	}
	s = s[:KeptResponse]
	for i := 0; i < 3 && len(s) > 0 && s[len(s)-1]&0xC0 == 0x80; i++ {
		s = s[:len(s)-1]
	}
	if len(s) > 0 && s[len(s)-1] >= 0xC0 {
		s = s[:len(s)-1]
	}
	return s
}

// Limits of what a producer may give.
const (
	MaxHorizon     = 10 * 365 * 24 * time.Hour // how far ahead a notice may be due
	MaxSteps       = 100                       // of a ladder
	MaxHeaders     = 32
	MaxHeaderBytes = 8 << 10
	MaxURL         = 2048
)

// ErrInvalid is what errors about a producer's input wrap.
var ErrInvalid = errors.New("invalid")

func invalid(format string, a ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, a...)...)
}
