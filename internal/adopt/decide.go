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

// opWait says that an event may be on its way that tells what to do.
const opWait = store.Operation("wait")

// decide says what to do with a key as it was seen: one of the operations, opWait, or
// "" for nothing.
//
//	timer        notice                          then
//	none         scheduled, not yet due          cancel, if it was removed; due now, if it has expired
//	no expiry    scheduled, not yet due          cancel, if an event said so
//	other type   scheduled, not yet due          cancel, if an event said so
//	these two    adopted, not yet due            cancel, however it was found (not in a cluster)
//	none         adopted, not yet due            cancel, if timers and notices were compared (not in a cluster)
//	payload      none, settled, dead             adopt
//	payload      pending, same due and body      nothing
//	payload      pending, same due, other body   adopt
//	payload      not tried yet, same body        move
//	payload      anything else pending           adopt
//	our number   pending, same due               nothing
//	our number   scheduled, other due            adopt, if events said that it was set (not in a cluster); nothing, if
//	                                             a call of the API asks before the event; wait, if a scan looks before
//	                                             it; move otherwise
//
// What the service sets itself expires 1 ms before its notice is due: another
// expiry is somebody's EXPIRE, or their own value that happens to be such a number.
// Only the events tell these apart.
func decide(s *store.Seen, t eventSet, now time.Time, cluster bool) store.Operation {
	margin := time.Duration(0)
	if cluster {
		margin = clusterMargin
	}
	timed := s.State == notice.Scheduled && !s.NoTimer // pending with a timer of its own
	next := s.NextAttemptAt()                          // the time of that timer: later than Due if the notice was postponed
	if s.Length < 0 || s.Expire < 0 {
		gone := t.removed || t.event && s.Length != store.NoKey
		certain := t.compared && !t.expired || s.Length != store.NoKey
		if !gone && certain && !cluster && s.Notice != nil && s.Adopted {
			gone, margin = true, comparedMargin
		}
		if gone && timed && next.After(now.Add(margin)) {
			return store.OpCancel
		}
		if t.event && t.expired && timed && !cluster && s.Length == store.NoKey && next.After(now) {
			s.Expire = now.UnixMilli() - 1
			return store.OpMove
		}
		return ""
	}
	if s.Notice == nil {
		return store.OpAdopt
	}
	due := s.Expire + 1
	own := string(s.Value) == "0" || string(s.Value) == strconv.Itoa(s.NextAttempt())
	body := s.Value != nil && bytes.Equal(s.Value, s.Body) || s.Value == nil && s.Lost
	switch {
	case timed && next.UnixMilli() == due:
		if own || body {
			return ""
		}
		return store.OpAdopt
	case timed:
		if cluster && !t.event {
			return "" // a timer that is being set right now
		}
		if own && !body && !cluster && (t.value == valueSet || t.value == valueSetExpire) {
			return store.OpAdopt
		}
		if own && !body && t.asked && !t.event {
			return "" // whether it is a payload says its event, which is on its way; if that is lost, a scan moves it
		}
		if own && !body && t.scanned && !t.event {
			return opWait
		}
		if own || body && s.AttemptsMade == 0 {
			return store.OpMove
		}
		return store.OpAdopt
	case cluster && s.Due.UnixMilli() == due && (own || body || string(s.Value) == strconv.Itoa(s.AttemptsMade)):
		return "" // our timer, set too late: the attempt it is for may be over
	case cluster && (s.State == notice.Scheduled || s.State == notice.Claimed) && (own || body):
		return "" // a timer that has not been removed yet
	}
	return store.OpAdopt
}
