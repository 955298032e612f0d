package intake

import (
	"bytes"
	"strconv"
	"time"

	"notifier/internal/notice"
)

// clusterMargin is the minimum time until a notice is due for it to be cancelled in a cluster, whose
// nodes have different clocks.
const clusterMargin = time.Second

// comparedMargin is the minimum time until a notice is due for it to be cancelled without an event:
// clocks may be set back, and a timer that has just expired is missing too.
const comparedMargin = 250 * time.Millisecond

// Decisions that are not operations of the store.
const (
	opNothing = Operation("")
	opWait    = Operation("wait") // an event that decides may be on its way
	opDueNow  = Operation("due")  // OpMove, to now
)

// facts is a set of known facts about a key.
type facts uint32

const (
	inCluster facts = 1 << iota

	// Of the key itself.
	isTimer   // a string that expires
	isLasting // a timer that lives for twice the time until a second check
	isSame    // a timer with the expiry of its first check
	isGone    // nothing is stored under the key

	// Of the timer's value.
	isOurs     // the number of the next attempt, or the notice's body
	isNumber   // the number of the next attempt
	isBody     // the notice's body, which may be the same text
	isLeftOver // isOurs, or the number of the last attempt

	// Of the notice.
	hasNotice   // there is one: pending, dead or settled
	hasOwnTimer // scheduled, with its own timer
	isPending   // scheduled or claimed
	isAdopted   // made of a timer
	isUntried   // no attempt was made
	sameTime    // the timer expires when the notice's own timer would
	sameDue     // the timer expires when the notice was due
	isAhead     // the notice is not yet due, in a cluster by clusterMargin
	isFarAhead  // by comparedMargin

	// Of the events, see eventSet.
	hasEvent    // an event
	wasRemoved  // an event said that the key was deleted or moved away
	wasExpired  // an event said that the timer has expired
	wasSet      // events said that a value was set
	wasCompared // timers and notices were compared
	isAsked     // requested by a call of the API
	isScanned   // first check by a scan
)

// rule is the decision for a key that has some facts and lacks others.
type rule struct {
	with, without facts
	then          Operation
}

// rules is the decision table for one key that a client may have set as a timer. The facts about the key, its notice
// and its events select an operation: for example, OpAdopt turns the timer into a notice. The first matching rule
// decides, and the last rule matches every key.
var rules = []rule{
	// The key is missing, holds another type or never expires. A missing key is no reason to cancel
	// if Redis evicts.
	{wasRemoved | hasOwnTimer | isAhead, isTimer, OpCancel},
	{hasEvent | hasOwnTimer | isAhead, isTimer | isGone, OpCancel},
	{wasCompared | isAdopted | hasOwnTimer | isFarAhead, isTimer | inCluster | wasExpired, OpCancel},
	{isAdopted | hasOwnTimer | isFarAhead, isTimer | inCluster | isGone, OpCancel},          // with or without an event
	{hasEvent | wasExpired | isGone | hasOwnTimer | isAhead, isTimer | inCluster, opDueNow}, // shortened, and expired before it was checked
	{0, isTimer, opNothing},

	// A timer without a notice.
	{0, hasNotice, OpAdopt},

	// A timer at the time of its pending notice.
	{hasOwnTimer | sameTime | isOurs, 0, opNothing},
	{hasOwnTimer | sameTime, 0, OpAdopt},

	// A timer at another time than its pending notice.
	{hasOwnTimer | inCluster, hasEvent, opNothing}, // the service is setting it now
	// The service's own timers have the number of the next attempt, or 0, as their value. Here either a client has used
	// EXPIRE on such a timer, or a client has set a payload that equals the number. The events say which. After a SET,
	// an EXPIRE may be on its way; without any event, a scan reschedules the notice.
	{hasOwnTimer | isNumber | wasSet | isLasting, isBody | inCluster | isSame, opWait},
	{hasOwnTimer | isNumber | wasSet, isBody | inCluster, OpAdopt},
	{hasOwnTimer | isNumber | isAsked, isBody | hasEvent, opNothing},
	{hasOwnTimer | isNumber | isScanned, isBody | hasEvent, opWait},
	{hasOwnTimer | isNumber, 0, OpMove},
	{hasOwnTimer | isBody | isUntried, 0, OpMove},
	{hasOwnTimer, 0, OpAdopt},

	// A timer whose notice is claimed, due at once, dead or settled.
	{inCluster | sameDue | isLeftOver, 0, opNothing}, // the service's own, set too late: its attempt may have ended
	{inCluster | isPending | isOurs, 0, opNothing},   // the service's own, not yet removed
	{0, 0, OpAdopt},
}

// decide returns the operation for a checked key: an operation, opWait, or opNothing. For an
// expired timer it sets when.
func decide(s *Seen, t eventSet, now time.Time, cluster bool) Operation {
	f := timerFacts(s, now) | noticeFacts(s, now, cluster) | t.facts() | fact(inCluster, cluster) |
		fact(isSame, t.firstExpire == s.Expire)
	for _, r := range rules {
		if f&r.with != r.with || f&r.without != 0 {
			continue
		}

		if r.then == opDueNow {
			s.Expire = now.UnixMilli() - 1
			return OpMove
		}

		return r.then
	}

	return opNothing // unreachable: the last rule always matches
}

// fact returns f if is is true.
func fact(f facts, is bool) facts {
	if is {
		return f
	}
	return 0
}

// timerFacts returns the facts of a key, and of its value compared with that of its notice.
func timerFacts(s *Seen, now time.Time) facts {
	f := fact(isGone, s.Length == NoKey) | fact(isTimer, s.Length >= 0 && s.Expire >= 0) |
		fact(isLasting, s.Expire > now.Add(2*comparedMargin).UnixMilli())
	if s.Notice == nil {
		return f
	}

	number := string(s.Value) == "0" || string(s.Value) == strconv.Itoa(s.NextAttempt())
	sameBody := bytes.Equal(s.Value, s.Body)
	if s.Value == nil { // longer than the maximum
		sameBody = s.Lost
	}

	last := string(s.Value) == strconv.Itoa(s.AttemptsMade)
	return f | fact(isNumber, number) | fact(isBody, sameBody) | fact(isOurs, number || sameBody) | fact(isLeftOver, number ||
		sameBody || last)
}

// noticeFacts returns the facts of a notice, and of its times compared with those of the timer.
func noticeFacts(s *Seen, now time.Time, cluster bool) facts {
	if s.Notice == nil {
		return 0
	}

	margin := time.Duration(0)
	if cluster {
		margin = clusterMargin
	}

	next := s.NextAttemptAt() // later than Due if the notice was postponed
	expiry := s.Expire + 1    // when the timer has expired
	f := hasNotice | fact(isAdopted, s.Adopted) | fact(isUntried, s.AttemptsMade == 0) |
		fact(hasOwnTimer, s.State == notice.Scheduled && !s.NoTimer) | fact(isPending, s.State == notice.Scheduled || s.State == notice.Claimed)
	return f | fact(sameTime, next.UnixMilli() == expiry) | fact(sameDue, s.Due.UnixMilli() == expiry) |
		fact(isAhead, next.After(now.Add(margin))) | fact(isFarAhead, next.After(now.Add(comparedMargin)))
}

// facts returns the facts that the events report.
func (t eventSet) facts() facts {
	return fact(hasEvent, t.event) | fact(wasRemoved, t.removed) | fact(wasExpired, t.expired) | fact(wasCompared, t.compared) |
		fact(isAsked, t.asked) | fact(isScanned, t.scanned) | fact(wasSet, t.value == valueSet || t.value == valueSetExpire)
}
