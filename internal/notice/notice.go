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

// Limits of what is kept.
const (
	KeptAttempts = 20  // the last attempts of a notice
	KeptResponse = 512 // bytes of a response
)

// Header is one header of a callback. Order is kept.
type Header struct{ Name, Value string }

// Content is what the producer asked to be sent, and to where. It never
// changes after the schedule call; a replace makes a new notice.
type Content struct {
	URL string
	// Audience names whom the notice is for, where a route signs for each audience.
	Audience    string
	ContentType string // empty = application/json for a JSON body, none otherwise
	Body        []byte
	Headers     []Header
	Ladder      Ladder // nil = the route's
	Method      string // empty = POST
	// Traceparent and Tracestate are the trace context that the attempts belong to: the
	// producer's, or that of its schedule call if the call is traced. They are not compared
	// when a call is repeated.
	Traceparent, Tracestate string
	// Adopted marks the notice of a plain timer: a client's DEL of that cancels it.
	Adopted bool
	// Lost marks an adopted timer that expired before its value could be read.
	Lost bool
}

// Notice is one delayed message with everything known of it.
type Notice struct {
	Key    string
	Route  string // the route's prefix in Redis
	Made   Made
	Due    time.Time // when the coming (or last) attempt is (was) due
	Locked int       // times put off because of a lock, since the last attempt
	// AwaitsReport: its entry was handed to a list or stream, and the consumer has
	// not reported yet.
	AwaitsReport bool
	// Waits is what held the notice before the last change of the cause; the cause since
	// then is in the score of the shadow.
	Waits Waits

	Content

	// AttemptsMade counts the attempts made; it is the number of the last one.
	// Attempts holds the last KeptAttempts of them.
	AttemptsMade int
	Attempts     []Attempt
	// Redriven is the number of attempts made before the last redrive: the
	// ladder begins there.
	Redriven int
	// Endings is how often it has ended before: it was dead and was redriven, or
	// delivered until its consumer refused it.
	Endings int
	// Client is the number of the client that scheduled it; 0 = none is recorded. It is not part
	// of the content: another client may repeat the schedule call.
	Client int
	// Replay is the id of the replay that scheduled it again from the history, if
	// one did.
	Replay string
	// Reason is why it is dead; empty otherwise.
	Reason Reason
	// Raw is what stood in the record's place where that could not be read: see
	// Unread. Nil otherwise.
	Raw []byte

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

// NextAttempt is the number of the coming attempt, from 1.
func (n *Notice) NextAttempt() int { return n.AttemptsMade + 1 }

// Made is when a notice was made, as a number that no two notices of one key
// share: µs since the start of 2020, which Redis's clock tells apart where one
// script follows another. Records written before that hold Unix ms, and keep
// the number they have: the webhook-id is made of it.
type Made int64

// madeEpoch is where the numbers of a Made begin. Since 2020 and not since 1970,
// because that is a digit shorter: a record with a body of 200 bytes just fits
// Redis's allocation class of 256. Smaller numbers than leastMicros are Unix ms.
const (
	madeEpoch   = 1577836800_000_000 // 2020-01-01 in Unix µs
	leastMicros = 10_000_000_000_000
)

// Earliest is when the first notice can be made that this tells from one of Unix ms.
// Redis's clock stands before that only if nobody has set it; the scripts refuse then.
func Earliest() time.Time { return time.UnixMicro(leastMicros + madeEpoch).UTC() }

// MadeAt is the Made of a notice made at t.
func MadeAt(t time.Time) Made { return Made(t.UnixMicro() - madeEpoch) }

// Time is when the notice was made.
func (m Made) Time() time.Time {
	if m < leastMicros {
		return time.UnixMilli(int64(m)).UTC()
	}
	return time.UnixMicro(int64(m) + madeEpoch).UTC()
}

// ID is the webhook-id: the same for every attempt and redrive of a notice,
// different for another notice under the same key. It holds no dot.
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

// digest identifies the notice among all with its key.
func (n *Notice) digest() [sha256.Size]byte {
	return sha256.Sum256(strconv.AppendInt(append([]byte(n.Key), '|'), int64(n.Made), 10))
}

// MadeOf is the Made of the notice under a key that was made within the
// millisecond at and has the webhook-id id; ok is false if there is none.
func MadeOf(key, id string, at time.Time) (m Made, ok bool) {
	fits := func(m Made) bool { return (&Notice{Key: key, Made: m}).ID() == id }
	if m = Made(at.UnixMilli()); fits(m) { // of a record from before Made was in µs
		return m, true
	}
	first := MadeAt(at.Truncate(time.Millisecond))
	for m = first; m < first+1000; m++ {
		if fits(m) {
			return m, true
		}
	}
	return 0, false
}

// Step is the delay before the attempt after the coming one, and false when
// the ladder, counted from the last redrive, is used up.
func (n *Notice) Step(route Ladder) (time.Duration, bool) {
	return n.StepAfter(n.NextAttempt(), route)
}

// StepAfter is the delay after the attempt of a number: see Step.
func (n *Notice) StepAfter(attempt int, route Ladder) (time.Duration, bool) {
	l := route
	if n.Ladder != nil {
		l = n.Ladder
	}
	i := attempt - 1 - n.Redriven
	if i < 0 || i >= len(l) {
		return 0, false
	}
	return l[i], true
}

// Add counts an attempt and keeps the last KeptAttempts.
func (n *Notice) Add(a Attempt) {
	n.AttemptsMade = a.Number
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
	if c.Audience != other.Audience {
		d = append(d, "audience")
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
	// Host is the receiver's host, if the handler limits calls to each host: a call to it has
	// ended, or, if Unsent, the notice waits for it. With the reason busy all its slots here are
	// taken.
	Host string
	// Unsent: no exchange began. Waited is how long the handler waited before the exchange.
	Unsent bool
	Waited time.Duration
}

// Report is what a consumer says of a notice that it took from a list or a
// stream: the result of an attempt that this service cannot see.
type Report struct {
	// ID is the notice's and Attempt the attempt's, from the entry: the report
	// concerns no other, whatever the key holds by now.
	ID      string
	Attempt int
	Result
}

// Push is an entry that the settle hands to a list or stream in the same
// script.
type Push struct {
	Stream bool
	Key    string
	MaxLen int64 // of a stream, approximate; 0 = unbounded
	// Entry is the list's element, or field, value, … of a stream's entry.
	Entry []string
	// Mark names this push, whoever makes it: another push of the same mark is the same
	// one. InPlaceOf are the marks of pushes that nobody knows to have been made, and of
	// which this one takes the place.
	Mark      string
	InPlaceOf []string
}

// PushMark is the mark of the push of the coming attempt, and inPlaceOf are those of the
// attempts right before it that were interrupted or had no answer. A deferral by a
// consumer, after which the same attempt is pushed again, is counted in Locked.
func (n *Notice) PushMark() (mark string, inPlaceOf []string) {
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

// ErrUnanswered says that a push has no answer that tells what became of it. The answer was lost, so
// that the entry may be there, or the node takes nothing at the moment. The same push
// may be made again.
var ErrUnanswered = errors.New("the push has no answer")

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

// DeferredResult puts a notice off without using an attempt. No exchange has begun;
// whoever defers after one began sets Unsent to false.
func DeferredResult(r Reason, after time.Duration, detail string) Result {
	return Result{Outcome: OutcomeDeferred, Reason: r, After: after, Response: detail, Unsent: true}
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
	MaxAudience    = 128
	MaxTracestate  = 256
)

// ErrInvalid is what errors about a producer's input wrap.
var ErrInvalid = errors.New("invalid")

func invalid(format string, a ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, a...)...)
}
