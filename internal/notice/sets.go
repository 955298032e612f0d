package notice

// The closed sets of this service. Each value is a label of a metric, a field of a log line or a filter of
// the API, so the values are fixed.

// State is the state of a notice: pending (scheduled or claimed) or finalized. It usually changes like this:
//
//	from                      to               cause
//	scheduled                 claimed          an instance starts an attempt
//	claimed                   delivered, dead  the result of the attempt
//	claimed                   scheduled        the attempt is retried, or could not start
//	scheduled, claimed, dead  cancelled        a call of the API
//	delivered, dead           scheduled        a call of the API to deliver the notice again
//	delivered                 scheduled, dead  the consumer of a list or stream reports a failure or a deferral
type State string

// The states. They are not stored in the record, but derived from the sets in Redis that contain the notice's key, and
// from its claim.
const (
	Scheduled State = "scheduled"
	Claimed   State = "claimed"
	Delivered State = "delivered"
	Cancelled State = "cancelled"
	Dead      State = "dead"
	// Settled is a finalized notice that is no longer stored. A repeated schedule call finds its [Tombstone].
	// No listing contains it.
	Settled State = "settled"
	// Lost is a notice whose record is stored, but whose key is in no set: Redis has evicted or lost the set. Nothing
	// delivers it. No listing contains it.
	Lost State = "lost"
)

// States lists the states of stored notices.
var States = []State{Scheduled, Claimed, Delivered, Cancelled, Dead}

// Ending is how a notice was finalized, as history stores it.
type Ending string

// The endings.
const (
	EndDelivered Ending = "delivered"
	EndDead      Ending = "dead"
	EndCancelled Ending = "cancelled"
	EndReplaced  Ending = "replaced" // another notice took its key
)

// Endings lists every ending.
var Endings = []Ending{EndDelivered, EndDead, EndCancelled, EndReplaced}

// Outcome is the outcome of an attempt.
type Outcome string

// The outcomes. Deferred uses no attempt. Handed is not final: a consumer has the notice, and the consumer's
// report, or its absence, is another outcome of the same attempt.
const (
	OutcomeDelivered Outcome = "delivered"
	OutcomeRetry     Outcome = "retry"
	OutcomeDead      Outcome = "dead"
	OutcomeDeferred  Outcome = "deferred"
	OutcomeHanded    Outcome = "handed"
)

// Outcomes lists every outcome.
var Outcomes = []Outcome{OutcomeDelivered, OutcomeRetry, OutcomeDead, OutcomeDeferred, OutcomeHanded}

// Reason is why an attempt was not a delivery. It is a metric label and a filter of the API, so its values
// are a closed set. It is empty for a plain delivery.
type Reason string

// The reasons.
const (
	ReasonDNS         Reason = "dns"          // the host's name was not found
	ReasonConnect     Reason = "connect"      // no connection: refused, unreachable
	ReasonTLS         Reason = "tls"          // handshake or certificate
	ReasonTimeout     Reason = "timeout"      // no complete answer within the route's timeout
	ReasonReset       Reason = "reset"        // the connection broke during the exchange
	ReasonProtocol    Reason = "protocol"     // the answer was not valid HTTP
	ReasonStatus4xx   Reason = "status_4xx"   // refused with a 4xx
	ReasonStatus5xx   Reason = "status_5xx"   // refused with a 5xx
	ReasonStatus      Reason = "status"       // any other status that does not acknowledge
	ReasonAckMismatch Reason = "ack_mismatch" // an acknowledging status with a body that does not match
	ReasonRedirect    Reason = "redirect"     // a 3xx; redirects are not followed
	ReasonTooLarge    Reason = "too_large"    // the answer is longer than the limit, and the ack needs all of it
	ReasonBlocked     Reason = "blocked"      // the target's address may not be called
	ReasonInvalid     Reason = "invalid"      // the notice cannot be sent: no url, bad header
	ReasonGone        Reason = "gone"         // 410: the receiver wants no further notice
	ReasonAborted     Reason = "aborted"      // webhook-delivery: abort-message
	ReasonPanic       Reason = "panic"        // the handler panicked
	ReasonInterrupted Reason = "interrupted"  // the instance died, was stopped, or lost Redis until its lease ended
	ReasonExhausted   Reason = "exhausted"    // attempts were interrupted until none was left
	ReasonExpired     Reason = "expired"      // its time to be delivered is over
	ReasonRejected    Reason = "rejected"     // a consumer reported failure
	ReasonUnreported  Reason = "unreported"   // a consumer took it and reported nothing in time
	ReasonDecode      Reason = "decode"       // a worker could not decode the body
	ReasonQueue       Reason = "queue"        // the list or stream did not accept it
	ReasonUnreadable  Reason = "unreadable"   // its record cannot be decoded
	ReasonMissing     Reason = "missing"      // it has no record
	ReasonForgotten   Reason = "forgotten"    // the subject that sealed it was forgotten, so that it cannot be opened
	ReasonLocked      Reason = "locked"       // 423, or a consumer's exit code 75: deferred
	ReasonBusy        Reason = "busy"         // deferred: all slots of the host are taken
	ReasonRate        Reason = "rate"         // deferred: the route's rate is used up
	ReasonBreaker     Reason = "breaker"      // deferred: the host's breaker is open
	ReasonHeaders     Reason = "headers"      // deferred: the url's scheme or port is not one that gets the route's headers
	ReasonToken       Reason = "token"        // the issuer returned no access token: deferred, or refused by the issuer
	ReasonLocal       Reason = "local"        // deferred: a shortage of the instance's machine, see Shortage
	ReasonSealed      Reason = "sealed"       // deferred: this instance does not have the key that opens the notice
	ReasonPaused      Reason = "paused"       // deferred: its receiver is paused
	ReasonShutdown    Reason = "shutdown"     // deferred: this instance is stopping
	ReasonLease       Reason = "lease"        // deferred: the lease was about to end, or other instances may have reclaimed the claim
)

// Reasons lists every reason.
var Reasons = []Reason{
	ReasonDNS, ReasonConnect, ReasonTLS, ReasonTimeout, ReasonReset, ReasonProtocol, ReasonStatus4xx, ReasonStatus5xx,
	ReasonStatus, ReasonAckMismatch, ReasonRedirect, ReasonTooLarge, ReasonBlocked, ReasonInvalid, ReasonGone,
	ReasonAborted, ReasonPanic, ReasonInterrupted, ReasonExhausted, ReasonExpired, ReasonRejected, ReasonUnreported, ReasonDecode, ReasonQueue,
	ReasonUnreadable, ReasonMissing, ReasonForgotten,
	ReasonLocked, ReasonBusy, ReasonRate, ReasonBreaker, ReasonHeaders, ReasonToken, ReasonLocal, ReasonSealed, ReasonPaused,
	ReasonShutdown, ReasonLease,
}

// Shortage is a resource that this machine lacks, so that attempts cannot begin. It is a metric label, so its values are a
// closed set.
type Shortage string

// The shortages.
const (
	ShortDescriptors  Shortage = "descriptors"  // open files
	ShortMemory       Shortage = "memory"       // memory or buffers of the kernel for sockets
	ShortPorts        Shortage = "ports"        // ephemeral ports for connections to one address
	ShortResolver     Shortage = "resolver"     // the resolver of host names does not answer
	ShortCertificates Shortage = "certificates" // the system's certificates cannot be read
	ShortLog          Shortage = "log"          // the log takes no lines
)

// Shortages lists every shortage.
var Shortages = []Shortage{ShortDescriptors, ShortMemory, ShortPorts, ShortResolver, ShortCertificates, ShortLog}

// Source is what triggered an attempt or a claim.
type Source string

// The sources. A report never claims: it settles an attempt whose entry was pushed.
const (
	SourceEvent  Source = "event"  // the expired event of its timer
	SourceSweep  Source = "sweep"  // the reconciler
	SourceReport Source = "report" // a consumer
)

// ClaimSources lists the sources of claims.
var ClaimSources = []Source{SourceEvent, SourceSweep}

// ClaimResult is the result of trying to claim a notice.
type ClaimResult string

// The results of a claim.
const (
	ClaimWon   ClaimResult = "won"
	ClaimLost  ClaimResult = "lost"  // another instance was first
	ClaimStale ClaimResult = "stale" // no longer due: settled, cancelled or rescheduled
	// ClaimParked: another notice of its sequence comes first.
	ClaimParked ClaimResult = "parked"
)

// ClaimResults lists every result.
var ClaimResults = []ClaimResult{ClaimWon, ClaimLost, ClaimStale, ClaimParked}

// EventResult is what the listener did with an expired event.
type EventResult string

// The results of an event.
const (
	EventDispatched EventResult = "dispatched"
	EventLeft       EventResult = "left"     // another instance is preferred for the notice
	EventUnrouted   EventResult = "unrouted" // a notice key that no route covers
	EventForeign    EventResult = "foreign"  // the key of another program
	EventDropped    EventResult = "dropped"  // the queue was full; the sweep will claim the notice
)

// EventResults lists every result.
var EventResults = []EventResult{EventDispatched, EventLeft, EventUnrouted, EventForeign, EventDropped}
