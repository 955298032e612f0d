package adopt

import (
	"bytes"
	"strconv"
	"time"

	"notifier/internal/notice"
	"notifier/internal/store"
)

// told is what events said of a key since it was last looked at.
type told struct {
	event   bool // anything at all, as opposed to a scan
	removed bool // somebody deleted it, or moved it away
	expired bool
}

func (t told) and(o told) told {
	return told{t.event || o.event, t.removed || o.removed, t.expired || o.expired}
}

// hear reads an event's name; ok is false for those that mean nothing here.
func hear(event string) (t told, ok bool) {
	switch event {
	case "expired":
		return told{expired: true}, true
	case "evicted":
		return told{}, false
	case "del", "rename_from", "move_from":
		return told{event: true, removed: true}, true
	}
	return told{event: true}, true
}

// clusterMargin is how far off a timer must expire to be followed in a
// cluster, whose nodes have clocks of their own.
const clusterMargin = time.Second

// decide says what to do with a key as it was seen: one of the operations, or
// "" for nothing.
//
//	timer        notice                          then
//	none         scheduled, not yet due          cancel, if it was removed; due now, if it has expired
//	no expiry    scheduled, not yet due          cancel, if an event said so
//	payload      none, settled, dead             adopt
//	payload      pending, same due and body      nothing
//	payload      pending, same due, other body   adopt
//	payload      not tried yet, same body        move
//	payload      anything else pending           adopt
//	our number   pending, same due               nothing
//	our number   scheduled, other due            move
func decide(s *store.Seen, t told, now time.Time, cluster bool) store.Operation {
	if s.Length == store.NoString {
		return ""
	}
	margin := time.Duration(0)
	if cluster {
		margin = clusterMargin
	}
	timed := s.State == notice.Scheduled && !s.Bare // pending with a timer of its own
	if s.Length == store.NoTimer || s.Expire < 0 {
		gone := t.removed || t.event && s.Length >= 0
		if gone && timed && s.Due.After(now.Add(margin)) {
			return store.OpCancel
		}
		if t.event && t.expired && timed && !cluster && s.Length == store.NoTimer && s.Due.After(now) {
			s.Expire = now.UnixMilli() - 1
			return store.OpMove
		}
		return ""
	}
	if s.Notice == nil {
		return store.OpAdopt
	}
	due := s.Expire + 1
	own := string(s.Value) == "0" || string(s.Value) == strconv.Itoa(s.Coming())
	body := s.Value != nil && bytes.Equal(s.Value, s.Body) || s.Value == nil && s.Lost
	switch {
	case timed && s.Due.UnixMilli() == due:
		if own || body {
			return ""
		}
		return store.OpAdopt
	case timed:
		if cluster && !t.event {
			return "" // a timer that is being set right now
		}
		if own || body && s.Used == 0 {
			return store.OpMove
		}
		return store.OpAdopt
	case cluster && s.Due.UnixMilli() == due && (own || body || string(s.Value) == strconv.Itoa(s.Used)):
		return "" // our timer, set too late: the attempt it is for may be over
	case cluster && (s.State == notice.Scheduled || s.State == notice.Claimed) && (own || body):
		return "" // a timer that has not been removed yet
	}
	return store.OpAdopt
}
