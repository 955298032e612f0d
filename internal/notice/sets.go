package notice

// The closed sets of this service: each value is a label of a metric, a field of
// a log line or a filter of the API, so none may come from outside.

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
	// Settled is a finalized notice that is no longer kept: a schedule call that is repeated finds its
	// [Tombstone]. No listing has it.
	Settled State = "settled"
)

// States lists every state of a notice that is kept.
var States = []State{Scheduled, Claimed, Delivered, Cancelled, Dead}

// Ending is how a notice ended, as history keeps it.
type Ending string

// The endings.
const (
	EndDelivered Ending = "delivered"
	EndDead      Ending = "dead"
	EndCancelled Ending = "cancelled"
	EndReplaced  Ending = "replaced" // another notice has taken its key
)

// Endings lists every ending.
var Endings = []Ending{EndDelivered, EndDead, EndCancelled, EndReplaced}

// Outcome is what an attempt comes to.
type Outcome string

// The outcomes. Deferred uses no attempt. Handed is no end: a consumer has the
// notice, and what it reports, or that it reports nothing in time, is another
// outcome of the same attempt.
const (
	OutcomeDelivered Outcome = "delivered"
	OutcomeRetry     Outcome = "retry"
	OutcomeDead      Outcome = "dead"
	OutcomeDeferred  Outcome = "deferred"
	OutcomeHanded    Outcome = "handed"
)

// Outcomes lists every outcome.
var Outcomes = []Outcome{OutcomeDelivered, OutcomeRetry, OutcomeDead, OutcomeDeferred, OutcomeHanded}

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
	ReasonInterrupted Reason = "interrupted"  // the instance died, stood still, or lost Redis until its lease ended
	ReasonExhausted   Reason = "exhausted"    // attempts were lost until none was left
	ReasonRejected    Reason = "rejected"     // a consumer reported failure
	ReasonUnreported  Reason = "unreported"   // a consumer took it and reported nothing in time
	ReasonQueue       Reason = "queue"        // the list, stream or log could not take it
	ReasonUnreadable  Reason = "unreadable"   // what stands in its record's place cannot be read
	ReasonMissing     Reason = "missing"      // it has no record
	ReasonLocked      Reason = "locked"       // 423, or a consumer's exit code 75: put off
	ReasonBusy        Reason = "busy"         // deferred: all slots of the host are taken
	ReasonRate        Reason = "rate"         // deferred: the route's rate is used up
	ReasonBreaker     Reason = "breaker"      // deferred: the host's breaker is open
	ReasonHeaders     Reason = "headers"      // deferred: the url's scheme or port is not one that gets the route's headers
	ReasonToken       Reason = "token"        // the issuer gave no access token: deferred, or refused by the issuer
	ReasonShutdown    Reason = "shutdown"     // deferred: this instance is stopping
	ReasonLease       Reason = "lease"        // deferred: too little was left of the lease to begin, or others may have taken the claim over
)

// Reasons lists the closed set.
var Reasons = []Reason{
	ReasonDNS, ReasonConnect, ReasonTLS, ReasonTimeout, ReasonReset, ReasonProtocol, ReasonStatus4xx, ReasonStatus5xx,
	ReasonStatus, ReasonAckMismatch, ReasonRedirect, ReasonTooLarge, ReasonBlocked, ReasonInvalid, ReasonGone,
	ReasonAborted, ReasonPanic, ReasonInterrupted, ReasonExhausted, ReasonRejected, ReasonUnreported, ReasonQueue,
	ReasonUnreadable, ReasonMissing,
	ReasonLocked, ReasonBusy, ReasonRate, ReasonBreaker, ReasonHeaders, ReasonToken, ReasonShutdown, ReasonLease,
}

// Source says who brought an attempt or a claim about.
type Source string

// The sources. A report is none of a claim: it ends an attempt that was handed
// over.
const (
	SourceEvent  Source = "event"  // the expired event of its timer
	SourceSweep  Source = "sweep"  // the reconciler
	SourceReport Source = "report" // a consumer
)

// ClaimSources lists the sources of claims.
var ClaimSources = []Source{SourceEvent, SourceSweep}

// ClaimResult says what became of a claim that was tried.
type ClaimResult string

// The results of a claim.
const (
	ClaimWon   ClaimResult = "won"
	ClaimLost  ClaimResult = "lost"  // another instance was first
	ClaimStale ClaimResult = "stale" // it is not due any more: settled, cancelled or rescheduled
)

// ClaimResults lists every result.
var ClaimResults = []ClaimResult{ClaimWon, ClaimLost, ClaimStale}

// EventResult says what became of an expired event.
type EventResult string

// The results of an event.
const (
	EventDispatched EventResult = "dispatched"
	EventLeft       EventResult = "left"     // another instance is preferred for the notice
	EventUnrouted   EventResult = "unrouted" // a notice key that no route covers
	EventForeign    EventResult = "foreign"  // somebody else's key
	EventDropped    EventResult = "dropped"  // the queue was full; the reconciler finds the notice
)

// EventResults lists every result.
var EventResults = []EventResult{EventDispatched, EventLeft, EventUnrouted, EventForeign, EventDropped}
