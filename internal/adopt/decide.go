package adopt

import (
	"bytes"
	"strconv"
	"time"

	"notifier/internal/notice"
	"notifier/internal/store"
)

// clusterMargin is how far off a timer must expire to be followed in a
// cluster, whose nodes have clocks of their own.
const clusterMargin = time.Second

// comparedMargin is how far off a notice must be due to be cancelled without an
// event: clocks are set back now and then, and a timer that has just expired is
// gone as well.
const comparedMargin = 250 * time.Millisecond

// Decisions that are no operations of the store.
const (
	opNothing = store.Operation("")
	opWait    = store.Operation("wait") // an event may be on its way that tells what to do
	opDueNow  = store.Operation("due")  // OpMove, to now
)

// facts are what is known of a key.
type facts uint32

const (
	inCluster facts = 1 << iota

	// Of the key itself.
	isTimer // a string that expires
	isGone  // nothing is stored under the key

	// Of the timer's value.
	isOurs     // the number of the coming attempt, or the body of the notice
	isNumber   // the first of these
	isBody     // the second; both may be the same text
	isLeftOver // isOurs, or the number of the last attempt

	// Of the notice.
	hasNotice   // there is one: pending, dead or settled
	hasOwnTimer // scheduled, with a timer of its own
	isPending   // scheduled or claimed
	isAdopted   // made of a timer
	isUntried   // no attempt was made
	sameTime    // the timer expires when the timer of the notice does
	sameDue     // the timer expires when the notice was due
	isAhead     // the notice is not yet due, in a cluster by clusterMargin
	isFarAhead  // by comparedMargin

	// Of the events, see eventSet.
	hasEvent    // an event
	wasRemoved  // an event said that the key was deleted or moved away
	wasExpired  // an event said that the timer has expired
	wasSet      // events said that a value was set
	wasCompared // timers and notices were compared
	isAsked     // a call of the API asks
	isScanned   // a scan looks for the first time
)

// rule says what is done with a key that has some facts and lacks others.
type rule struct {
	with, without facts
	then          store.Operation
}

// rules are tried from the first to the last one; the last one fits all keys. What the
// service sets itself expires 1 ms before its notice is due: another expiry is a client's
// EXPIRE, or their own value that happens to be such a number. Only the events tell these
// apart.
var rules = []rule{
	// The key is gone, holds another type or never expires. Eviction is no reason to cancel.
	{wasRemoved | hasOwnTimer | isAhead, isTimer, store.OpCancel},
	{hasEvent | hasOwnTimer | isAhead, isTimer | isGone, store.OpCancel},
	{wasCompared | isAdopted | hasOwnTimer | isFarAhead, isTimer | inCluster | wasExpired, store.OpCancel},
	{isAdopted | hasOwnTimer | isFarAhead, isTimer | inCluster | isGone, store.OpCancel},    // however it was found
	{hasEvent | wasExpired | isGone | hasOwnTimer | isAhead, isTimer | inCluster, opDueNow}, // shortened, and over before it was looked at
	{0, isTimer, opNothing},

	// A timer without a notice.
	{0, hasNotice, store.OpAdopt},

	// A timer at the time of its pending notice.
	{hasOwnTimer | sameTime | isOurs, 0, opNothing},
	{hasOwnTimer | sameTime, 0, store.OpAdopt},

	// A timer at another time than its pending notice.
	{hasOwnTimer | inCluster, hasEvent, opNothing}, // it is being set right now
	{hasOwnTimer | isNumber | wasSet, isBody | inCluster, store.OpAdopt},
	// its event says whether it is a payload; if that is lost, a scan moves it
	{hasOwnTimer | isNumber | isAsked, isBody | hasEvent, opNothing},
	{hasOwnTimer | isNumber | isScanned, isBody | hasEvent, opWait},
	{hasOwnTimer | isNumber, 0, store.OpMove},
	{hasOwnTimer | isBody | isUntried, 0, store.OpMove},
	{hasOwnTimer, 0, store.OpAdopt},

	// A timer whose notice is claimed, due at once, dead or settled.
	{inCluster | sameDue | isLeftOver, 0, opNothing}, // the service's own, set too late: the attempt that it is for may be over
	{inCluster | isPending | isOurs, 0, opNothing},   // the service's own, not yet removed
	{0, 0, store.OpAdopt},
}

// decide says what to do with a key as it was seen: an operation, opWait, or opNothing. For
// a timer that has expired it sets when.
func decide(s *store.Seen, t eventSet, now time.Time, cluster bool) store.Operation {
	f := timerFacts(s) | noticeFacts(s, now, cluster) | t.facts() | fact(inCluster, cluster)
	for _, r := range rules {
		if f&r.with != r.with || f&r.without != 0 {
			continue
		}
		if r.then == opDueNow {
			s.Expire = now.UnixMilli() - 1
			return store.OpMove
		}
		return r.then
	}
	return opNothing // never: the last rule fits all
}

// fact is f, if it is one.
func fact(f facts, is bool) facts {
	if is {
		return f
	}
	return 0
}

// timerFacts are those of a key, and of its value beside that of its notice.
func timerFacts(s *store.Seen) facts {
	f := fact(isGone, s.Length == store.NoKey) | fact(isTimer, s.Length >= 0 && s.Expire >= 0)
	if s.Notice == nil {
		return f
	}

	number := string(s.Value) == "0" || string(s.Value) == strconv.Itoa(s.NextAttempt())
	sameBody := bytes.Equal(s.Value, s.Body)
	if s.Value == nil { // too long to be read
		sameBody = s.Lost
	}
	last := string(s.Value) == strconv.Itoa(s.AttemptsMade)
	return f | fact(isNumber, number) | fact(isBody, sameBody) | fact(isOurs, number || sameBody) | fact(isLeftOver, number ||
		sameBody || last)
}

// noticeFacts are those of a notice, and of its times beside that of the timer.
func noticeFacts(s *store.Seen, now time.Time, cluster bool) facts {
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

// facts are what the events say.
func (t eventSet) facts() facts {
	return fact(hasEvent, t.event) | fact(wasRemoved, t.removed) | fact(wasExpired, t.expired) | fact(wasCompared, t.compared) |
		fact(isAsked, t.asked) | fact(isScanned, t.scanned) | fact(wasSet, t.value == valueSet || t.value == valueSetExpire)
}
