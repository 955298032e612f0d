package notice

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Limits of stored data.
const (
	KeptAttempts = 20  // last attempts of a notice
	KeptResponse = 512 // bytes of a response
)

// Header is one header of a callback. The order of headers is kept.
type Header struct{ Name, Value string }

// Content is the message of a notice and its target, as the producer gave them. After the schedule call only URL and
// Headers change, by Readdress; a replace makes a new notice.
type Content struct {
	URL string
	// Audience names the recipient, for routes that sign with a separate key per audience.
	Audience    string
	ContentType string // empty = application/json for a JSON body, none otherwise
	Body        []byte
	Headers     []Header
	// Sealed is the sealed text of the body, the headers and the credentials of the url, which are then not in the other fields:
	// see Seal. Same is a digest of these, under the digest key of their subject. Both are empty if the content is not sealed.
	Sealed, Same string
	// URLSealed means that the query and the fragment of the url are in Sealed too, and not in URL.
	URLSealed bool
	Ladder    Ladder // nil = the route's
	Method    string // empty = POST
	// Expires is the time from which no attempt begins any more; zero = there is none. The notice is dead then. ExpiresAfter is
	// the time from the first due time to Expires, if the producer or the route gave a duration. A repeated call may give another
	// duration, but no other Expires.
	Expires      time.Time
	ExpiresAfter time.Duration
	// FirstExpires is the Expires of the schedule call in Unix ms, if Expires has been changed since; NoExpiry if it had none. 0 = Expires
	// is still the first one. A repeated call is compared with it.
	FirstExpires int64
	// Tick is, of an occurrence of a recurring notice, the time that it is for; zero for other notices. It is not compared when a call is
	// repeated.
	Tick time.Time
	// Traceparent and Tracestate are the trace context of the attempts: the producer's, or that of the
	// schedule call if the call is traced. They are not compared when a call is repeated.
	Traceparent, Tracestate string
	// Adopted marks the notice of a plain timer. The client cancels it with DEL on the timer.
	Adopted bool
	// Lost marks an adopted timer that expired before its value could be read.
	Lost bool
	// Scheduled is the content as scheduled, if it was changed since; nil otherwise.
	Scheduled *AsScheduled
}

// Notice is one delayed message with its stored state.
type Notice struct {
	Key   string
	Route string // the route's prefix in Redis
	Made  Made
	Due   time.Time // due time of the coming attempt, or of the last one of a finalized notice
	// FirstDue is the due time of the creation in Unix ms, if Due has been changed since. 0 = Due is still the first one.
	FirstDue int64
	Locked   int // deferrals because of a lock since the last attempt
	// AwaitsReport means that the notice's entry was pushed to a list or stream, and that the consumer has
	// not reported yet.
	AwaitsReport bool
	// Waits holds the waiting times up to the last change of the cause. The score in the shadow has the cause
	// since then.
	Waits Waits

	Content

	// AttemptsMade is the number of completed attempts, and so the number of the last one. Attempts holds the
	// last KeptAttempts of them.
	AttemptsMade int
	Attempts     []Attempt
	// Redriven is the number of attempts made before the last redrive, at which the ladder started again.
	Redriven int
	// Endings is how often the notice was finalized before: as a notice that was redriven or resent, or as a
	// delivery that its consumer then rejected.
	Endings int
	// Client is the number of the client that scheduled the notice; 0 = not recorded. It is not part of the
	// content, because another client may repeat the schedule call.
	Client int
	// Replay is the id of the replay that scheduled the notice again from the history, if any.
	Replay string
	// Redirect is the id of the redirect that last changed the url, if any.
	Redirect string
	// Job is the id of the bulk redrive that last scheduled the notice again, if any.
	Job string
	// Resend is how often the notice was resent, and Resent the number of the ending after which it
	// was last resent; 0 = never.
	Resend, Resent int
	// Reason is why the notice is dead; empty otherwise.
	Reason Reason
	// Raw is the stored text of a record that could not be decoded, see Unread; nil otherwise.
	Raw []byte

	// kept is the content as text of the record from which this notice was read. A change of the content clears it.
	kept string
	// inline means that the record holds the body as JSON.
	inline bool
}

// StampLayout is the format of times for readers: RFC 3339 in UTC with milliseconds, which is the precision
// of stored times.
const StampLayout = "2006-01-02T15:04:05.000Z"

// Stamp formats a time with StampLayout.
func Stamp(t time.Time) string { return t.UTC().Format(StampLayout) }

// UnknownDue is the FirstDue of a notice that was restored or replayed: the due time of its creation is not stored.
const UnknownDue = -1

// DueAtCreation returns the due time that the notice got when it was created, in Unix ms, or UnknownDue.
func (n *Notice) DueAtCreation() int64 {
	if n.FirstDue != 0 {
		return n.FirstDue
	}
	return n.Due.UnixMilli()
}

// SameDue reports whether a repeated schedule call with that due time may be for this notice. A due time before the
// creation counts as the time of the creation.
func (n *Notice) SameDue(due time.Time) bool {
	first, made := n.DueAtCreation(), n.Made.Time().UnixMilli()
	return first == UnknownDue || max(due.UnixMilli(), made) == max(first, made)
}

// NextAttempt returns the number of the coming attempt, from 1.
func (n *Notice) NextAttempt() int { return n.AttemptsMade + 1 }

// Made is the creation time of a notice, in µs since the start of 2020. No two notices of a key have the same Made.
type Made int64

// madeEpoch is the time from which a [Made] counts, and leastMicros the first Made that the scripts give to a notice.
const (
	// With one more digit, a record with a body of 200 bytes would exceed Redis's allocation class of 256 bytes.
	madeEpoch   = 1577836800_000_000 // 2020-01-01 in Unix µs
	leastMicros = 10_000_000_000_000
)

// Earliest returns the first creation time. Redis's clock is earlier only if it was never set; the scripts then refuse to
// create notices.
func Earliest() time.Time { return time.UnixMicro(leastMicros + madeEpoch).UTC() }

// MadeAt returns the Made of a notice created at t.
func MadeAt(t time.Time) Made { return Made(t.UnixMicro() - madeEpoch) }

// Time returns when the notice was created.
func (m Made) Time() time.Time { return time.UnixMicro(int64(m) + madeEpoch).UTC() }

// ID returns the webhook-id. It is the same for every attempt and redrive of a notice, and different for
// another notice with the same key. It contains no dot.
func (n *Notice) ID() string {
	sum := n.digest()
	return "msg_" + hex.EncodeToString(sum[:13])
}

// IsID reports whether a text has the form of a webhook-id.
func IsID(text string) bool {
	sum, ok := strings.CutPrefix(text, "msg_")
	b, err := hex.DecodeString(sum)
	return ok && err == nil && len(b) == 13 && strings.ToLower(sum) == sum
}

// digest distinguishes the notice from all others with its key.
func (n *Notice) digest() [sha256.Size]byte {
	return sha256.Sum256(strconv.AppendInt(append([]byte(n.Key), '|'), int64(n.Made), 10))
}

// MadeOf returns the Made of the notice with that key and webhook-id that was created in the millisecond at.
// ok is false if none matches.
func MadeOf(key, id string, at time.Time) (m Made, ok bool) {
	first := MadeAt(at.Truncate(time.Millisecond))
	for m = first; m < first+1000; m++ {
		if (&Notice{Key: key, Made: m}).ID() == id {
			return m, true
		}
	}

	return 0, false
}

// Step returns the delay after the coming attempt. It returns false if the ladder, counted from the last
// redrive, has no further step.
func (n *Notice) Step(route Ladder) (time.Duration, bool) {
	return n.StepAfter(n.NextAttempt(), route)
}

// StepAfter returns the delay after the attempt with that number, like Step.
func (n *Notice) StepAfter(attempt int, route Ladder) (time.Duration, bool) {
	l := route
	if n.Ladder != nil {
		l = n.Ladder
	}

	i := attempt - 1 - n.Redriven
	if n.repeats(l) {
		i = min(i, len(l)-1)
	}

	if i < 0 || i >= len(l) {
		return 0, false
	}

	return max(l[i], -l[i]), true
}

// repeats reports whether the notice has attempts until it expires.
func (n *Notice) repeats(l Ladder) bool { return l.Repeats() && !n.Expires.IsZero() }

// MaxAttempts returns the number of the last attempt, with the ladder of the route; 0 = attempts are made until the notice expires.
func (n *Notice) MaxAttempts(route Ladder) int {
	l := route
	if n.Ladder != nil {
		l = n.Ladder
	}

	if n.repeats(l) {
		return 0
	}

	return 1 + n.Redriven + len(l)
}

// Add appends a completed attempt and keeps the last KeptAttempts.
func (n *Notice) Add(a Attempt) {
	n.AttemptsMade = a.Number
	n.Attempts = append(n.Attempts, a)
	if over := len(n.Attempts) - KeptAttempts; over > 0 {
		n.Attempts = n.Attempts[over:]
	}
}

// Diff returns the fields of c that differ from other's, with the API's names. An empty result means the same
// content. A content that was changed after its schedule call is compared as it was scheduled.
func (c *Content) Diff(other *Content) []string {
	changed := c.Scheduled != nil || other.Scheduled != nil
	if changed && c.digest() == other.digest() {
		return nil
	}

	var d []string
	if c.ScheduledURL() != other.ScheduledURL() {
		d = append(d, "url")
	}

	if c.Audience != other.Audience {
		d = append(d, "audience")
	}

	if c.Same != other.Same {
		d = append(d, "content")
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

	if !changed && !equal(c.Headers, other.Headers) {
		d = append(d, "headers")
	}

	if (c.Ladder == nil) != (other.Ladder == nil) || !equal(c.Ladder, other.Ladder) {
		d = append(d, "retry")
	}

	if !c.fixedExpiry().Equal(other.fixedExpiry()) {
		d = append(d, "expires")
	}

	if changed && len(d) == 0 { // the headers as scheduled are not stored
		d = append(d, "headers")
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

// Result is what a handler returns for one attempt.
type Result struct {
	Outcome  Outcome
	Reason   Reason
	Status   int
	Response string // cut to KeptResponse when stored
	// After is the minimal delay of the next try: Retry-After for a retry (the ladder's step still applies),
	// the delay of a deferral.
	After time.Duration
	// Push, if not nil, is an entry that the settle pushes to a list or stream.
	Push *Push
	// Host is the receiver's host, for handlers that limit calls per host. A call to the host has ended or,
	// with Unsent, the notice waits for it. With the reason busy, all its slots at this instance are taken.
	Host string
	// Unsent means that no exchange began. Waited is the handler's delay before the exchange.
	Unsent bool
	Waited time.Duration
	// Shortage is the resource that this machine lacks, for a deferral with the reason local.
	Shortage Shortage
}

// Report is a consumer's result for a notice that it took from a list or a stream, which this service cannot
// observe.
type Report struct {
	// ID and Attempt are those of the entry. The report applies to this attempt only, even if the key now
	// holds another notice.
	ID      string
	Attempt int
	Result
}

// Push is an entry that the settle script pushes to a list or stream.
type Push struct {
	Stream bool
	Key    string
	MaxLen int64 // of a stream, approximate; 0 = unbounded
	// Entry is the element of a list, or field, value, … of a stream's entry.
	Entry []string
	// Mark identifies the push, so that a push with the same mark is made only once. InPlaceOf are the marks
	// of earlier pushes whose result is unknown and which this push replaces.
	Mark      string
	InPlaceOf []string
}

// PushMark returns the mark of the coming attempt, a text that identifies its push: the write of an entry to a list or
// stream. A push that is repeated with the same mark normally adds no second entry. inPlaceOf has the marks of earlier
// attempts that may have added the entry already. If one did, the coming attempt normally pushes nothing.
func (n *Notice) PushMark() (mark string, inPlaceOf []string) {
	// A notice that its consumer deferred is pushed again under the same attempt number, so the number of deferrals
	// is part of the mark.
	id, locked := n.ID(), ":"+strconv.Itoa(n.Locked)
	of := func(attempt int) string { return id + ":" + strconv.Itoa(attempt) + locked }
	for i := len(n.Attempts) - 1; i >= 0; i-- {
		a := n.Attempts[i]
		if a.Reason != ReasonInterrupted && a.Reason != ReasonQueue {
			break
		}

		inPlaceOf = append(inPlaceOf, of(a.Number))
	}

	return of(n.NextAttempt()), inPlaceOf
}

// ErrUnanswered means that the result of a push is unknown. Either the answer was lost and the entry may
// exist, or the node accepts no writes at the moment. The same push may be repeated.
var ErrUnanswered = errors.New("the push was not answered")

// DeliveredResult returns the result of an acknowledged delivery.
func DeliveredResult(status int) Result { return Result{Outcome: OutcomeDelivered, Status: status} }

// RetryResult returns the result of a failure after which another attempt may succeed.
func RetryResult(r Reason, detail string) Result {
	return Result{Outcome: OutcomeRetry, Reason: r, Response: detail}
}

// DeadResult returns the result of a failure after which no attempt can succeed.
func DeadResult(r Reason, detail string) Result {
	return Result{Outcome: OutcomeDead, Reason: r, Response: detail}
}

// DeferredResult returns a deferral, which uses no attempt. It sets Unsent. A handler that defers after an
// exchange began clears Unsent.
func DeferredResult(r Reason, after time.Duration, detail string) Result {
	return Result{Outcome: OutcomeDeferred, Reason: r, After: after, Response: detail, Unsent: true}
}

// LocalDelay is the first delay of a notice deferred for a shortage of this machine.
const LocalDelay = time.Second

// LocalResult returns a deferral for a shortage of this machine.
func LocalResult(s Shortage, detail string) Result {
	r := DeferredResult(ReasonLocal, LocalDelay, detail)
	r.Shortage = s
	return r
}

// Kept cuts s to KeptResponse bytes, without splitting a rune.
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

// Limits of a producer's input.
const (
	MaxHorizon     = 10 * 365 * 24 * time.Hour // latest due time, counted from now
	MaxSteps       = 100                       // of a ladder
	MaxBody        = 16 << 20                  // bytes; the API's limit may be lower
	MaxHeaders     = 32
	MaxHeaderBytes = 8 << 10
	MaxURL         = 2048
	MaxAudience    = 128
	MaxTracestate  = 256
)

// ErrInvalid is wrapped by errors about a producer's input.
var ErrInvalid = errors.New("invalid")

func invalid(format string, a ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, a...)...)
}
