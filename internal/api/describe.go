package api

import (
	"cmp"
	"fmt"
	"time"

	"notifier/internal/notice"
	"notifier/internal/receivers"
)

// The details of changes of receivers in the audit. The pages note the same ones.

// PauseDetail describes a pause. A zero until means no end.
func PauseDetail(r receivers.Receiver, until time.Time) string {
	if until.IsZero() {
		return r.String()
	}
	return r.String() + " until " + until.UTC().Format(time.RFC3339)
}

// ResumeDetail describes a resume that spreads the held notices over a time.
func ResumeDetail(r receivers.Receiver, over time.Duration) string {
	if over == 0 {
		return r.String()
	}
	return r.String() + " over " + notice.Short(over)
}

// LimitDetail describes the limits of a receiver.
func LimitDetail(l *receivers.Limit) string {
	return fmt.Sprintf("%s: rate %s, concurrency %d", l.String(), cmp.Or(RateText(l.Rate), "0"), l.Concurrency)
}

// RateText returns a rate as notice.ParseRate reads it; empty for 0.
func RateText(perSecond float64) string {
	if perSecond == 0 {
		return ""
	}
	return spellRate(perSecond)
}
