package store

import (
	"errors"
	"time"

	"notifier/internal/notice"
)

// Errors that callers tell apart.
var (
	// ErrNotFound: no notice is kept under the key.
	ErrNotFound = errors.New("no such notice")
	// ErrUnavailable: Redis cannot be reached, or refuses writes. Nothing was
	// changed, or it is not known whether anything was; calls may be repeated.
	ErrUnavailable = errors.New("redis is not available")
	// ErrFull: Redis has reached maxmemory and takes no new notice.
	ErrFull = errors.New("redis is full")
	// ErrUnrouted: no route covers the key.
	ErrUnrouted = errors.New("no route covers the key")
	// ErrCursor: a page's cursor was not made by this service.
	ErrCursor = errors.New("not a cursor of this listing")
)

// Duplicate says what a schedule call does with a key that is kept already.
type Duplicate string

// The answers to a duplicate.
const (
	Reject  Duplicate = "reject"  // same content: the stored notice; different: a conflict
	Keep    Duplicate = "keep"    // the stored notice, whatever it holds
	Replace Duplicate = "replace" // the new notice takes the old one's place, also amid an attempt
)

// Request is one notice to schedule.
type Request struct {
	Key string
	// Due is the instant, Delay the time from now by Redis's clock. Due is
	// taken if it is not zero; both zero means now.
	Due         time.Time
	Delay       time.Duration
	OnDuplicate Duplicate // empty = Reject
	notice.Content
}

// Found is a notice as it is kept, and where it stands.
type Found struct {
	*notice.Notice
	State notice.State
	// SettledAt is when it was delivered or cancelled, or when it died.
	SettledAt time.Time
}

// Reply answers one Request.
type Reply struct {
	Found
	Created bool
	// Replaced: an older notice was there and is gone.
	Replaced bool
	// Differs names the content's fields that differ from the stored notice's:
	// not empty only under Reject, and then nothing was written.
	Differs []string
	// Err is this item's own failure.
	Err error
}

// Change answers a call that changes one notice.
type Change struct {
	// Found is the notice afterwards.
	Found
	// Done tells whether the call changed anything; if not, Before says why.
	Done bool
	// Before is the state the call met.
	Before notice.State
	// InFlight: an attempt was running when the call came; its end changes
	// nothing any more.
	InFlight bool
}

// Verdict is what a consumer reports of a notice it took from a list or a
// stream.
type Verdict struct {
	Outcome  notice.Outcome
	Reason   notice.Reason
	Response string        // what the consumer says about it; cut when it is kept
	After    time.Duration // of a deferral; 0 = the engine's own pause
}

// Query asks for a page of notices.
type Query struct {
	Routes []string // prefixes of routes to look in, in order
	// Prefix is app, app:module or app:module:type: what the keys lie under, at
	// a segment's border. Empty = all.
	Prefix string
	State  notice.State
	Reason notice.Reason // of dead ones
	Since  time.Time     // by due, settled or dead time, according to the state
	Until  time.Time
	Limit  int
	Cursor string
}

// Page is a part of a listing. An empty Cursor means there is no more; a page
// may be shorter than the limit, even empty, although more follow, because a
// call looks at a bounded number of entries.
type Page struct {
	Items  []Found
	Cursor string
}

// Redriven answers a bulk redrive's step.
type Redriven struct {
	Matched  int    // dead letters that fit the filter
	Redriven int    // of them, scheduled again (0 in a dry run)
	Cursor   string // empty = done
}

// Counts is what Redis holds of a route.
type Counts struct {
	Prefix  string
	Pending int64 // in the shadow: scheduled and claimed
	Overdue int64 // of them, due and not claimed
	Claimed int64
	Dead    int64
	Settled int64
	NextDue time.Time // zero = nothing pending
	Paused  bool
}
