package problems

import (
	"fmt"
	"strconv"
	"time"

	"notifier/internal/notice"
	"notifier/internal/receivers"
)

// CauseText returns the cause of a death: the HTTP status if it has one, else the reason.
func CauseText(c notice.Cause) Text {
	switch {
	case c.Status > 0:
		return AnswerText(c)
	case c.Reason == "":
		return say("no reason")
	}
	return Plain(string(c.Reason))
}

// AnswerText returns a response: the HTTP status if it is the failure, else the reason.
func AnswerText(c notice.Cause) Text {
	switch {
	case c.Reason == "":
		return say("delivered")
	case c.Status > 0 && (c.Status < 200 || c.Status > 299):
		return Plain("HTTP " + strconv.Itoa(c.Status))
	case c.Status > 0:
		return Plain(fmt.Sprintf("HTTP %d, %s", c.Status, c.Reason))
	}
	return Plain(string(c.Reason))
}

// LastAnswer returns the last response of a receiver: "HTTP 500, 38 in a row".
func LastAnswer(r *receivers.Health) Text {
	answer := AnswerText(notice.Cause{Reason: notice.Reason(r.Reason), Status: r.Status})
	if r.Failures > 1 {
		return say("%s, %s in a row", answer, r.Failures)
	}

	return answer
}

// NoSuccess states that a failing receiver has no known success. It is nil if it has one. Successes are recorded from a
// receiver's first failure on.
func NoSuccess(r *receivers.Health, now time.Time) Text {
	if !r.Failing() || !r.LastSuccess.IsZero() {
		return nil
	}
	return say("no success since its first known failure at %s", Moment{At: r.Since, Now: now})
}

// causeFlags are the flags that select a cause in the commands list, redrive and purge.
func causeFlags(c notice.Cause) (flags string) {
	if c.Reason != "" {
		flags = " --reason " + string(c.Reason)
	}

	if c.Status > 0 {
		flags += " --status " + strconv.Itoa(c.Status)
	}

	return flags
}
