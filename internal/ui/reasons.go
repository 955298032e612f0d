package ui

import (
	"time"

	"notifier/internal/notice"
	"notifier/internal/store"
)

// reasonTexts are the words for reasons on the pages of portal links. Other pages show the reasons
// themselves: operators search for them.
var reasonTexts = map[notice.Reason]text{
	notice.ReasonDNS:         say("host name not found"),
	notice.ReasonConnect:     say("no connection"),
	notice.ReasonTLS:         say("TLS connection failed"),
	notice.ReasonTimeout:     say("timed out"),
	notice.ReasonReset:       say("connection broken"),
	notice.ReasonProtocol:    say("invalid HTTP response"),
	notice.ReasonStatus4xx:   plain("HTTP 4xx"),
	notice.ReasonStatus5xx:   plain("HTTP 5xx"),
	notice.ReasonStatus:      say("unexpected HTTP status"),
	notice.ReasonAckMismatch: say("response does not acknowledge"),
	notice.ReasonRedirect:    say("redirect, not followed"),
	notice.ReasonTooLarge:    say("response too large"),
	notice.ReasonBlocked:     say("address not allowed"),
	notice.ReasonInvalid:     say("notice cannot be sent"),
	notice.ReasonGone:        say("receiver wants no more notices"),
	notice.ReasonAborted:     say("aborted by the receiver"),
	notice.ReasonPanic:       say("internal error"),
	notice.ReasonInterrupted: say("interrupted"),
	notice.ReasonExhausted:   say("interrupted too often"),
	notice.ReasonExpired:     say("expired"),
	notice.ReasonRejected:    say("rejected by the receiver"),
	notice.ReasonUnreported:  say("no report from the receiver"),
	notice.ReasonDecode:      say("body not decodable"),
	notice.ReasonQueue:       say("not accepted by the queue"),
	notice.ReasonUnreadable:  say("record unreadable"),
	notice.ReasonMissing:     say("record missing"),
	notice.ReasonForgotten:   say("content forgotten"),
	notice.ReasonLocked:      say("locked by the receiver"),
	notice.ReasonBusy:        say("too many calls to the receiver"),
	notice.ReasonRate:        say("rate used up"),
	notice.ReasonBreaker:     say("receiver does not answer"),
	notice.ReasonHeaders:     say("address not allowed for the headers"),
	notice.ReasonToken:       say("no access token"),
	notice.ReasonLocal:       say("service short of resources"),
	notice.ReasonSealed:      say("key not available"),
	notice.ReasonShutdown:    say("service restarting"),
	notice.ReasonLease:       say("taken over by another instance"),
}

// deathReasons are the possible reasons of dead letters.
var deathReasons = func() []notice.Reason {
	var out []notice.Reason
	for _, r := range notice.Reasons {
		switch r {
		case notice.ReasonLocked, notice.ReasonBusy, notice.ReasonRate, notice.ReasonBreaker, notice.ReasonHeaders, notice.ReasonLocal,
			notice.ReasonSealed, notice.ReasonShutdown, notice.ReasonLease:
		default:
			out = append(out, r)
		}
	}

	return out
}()

// reason returns the reason of an attempt or dead letter as the visitor sees it.
func (v Visitor) reason(r notice.Reason) text {
	switch words, ok := reasonTexts[r]; {
	case r == "":
		return say("no reason")
	case ok && v.Linked():
		return words
	}
	return plain(string(r))
}

// deathReason returns the reason of a dead letter. Visitors with a portal link see the status of the
// last response instead, if it is the reason.
func (v Visitor) deathReason(f *store.Found) text {
	if n := len(f.Attempts); v.Linked() && lastReason(f) == f.Reason && n > 0 && isStatus(f.Attempts[n-1]) {
		return plain("HTTP " + number(f.Attempts[n-1].Status))
	}
	return v.reason(f.Reason)
}

// isStatus reports whether an attempt failed because of its status alone.
func isStatus(a notice.Attempt) bool {
	switch a.Reason {
	case notice.ReasonStatus4xx, notice.ReasonStatus5xx, notice.ReasonStatus:
		return a.Status > 0
	}
	return false
}

// result returns the result of an attempt: "Timed out after 5s", "HTTP 500 · status_5xx · 12ms".
func (v Visitor) result(a notice.Attempt) text {
	if a.Reason == notice.ReasonTimeout && a.Status == 0 && a.Duration > 0 {
		return say("Timed out after %s", a.Duration)
	}

	result := say("delivered")
	if a.Reason != "" {
		result = v.reason(a.Reason)
	}

	switch status := "HTTP " + number(a.Status); {
	case isStatus(a) && v.Linked():
		result = plain(status)
	case a.Status > 0:
		result = say("%s · %s", status, result)
	}

	if a.Duration > 0 {
		result = say("%s · %s", result, a.Duration.Round(100*time.Microsecond))
	}

	return result
}
