package engine

import (
	"fmt"
	"time"

	"notifier/internal/fleet"
	"notifier/internal/notice"
)

// urgentShortage is the age from which a shortage of this machine is urgent.
const urgentShortage = time.Hour

// shortages returns the shortages of this machine as conditions of Ready. The state of the log is a condition of its own.
func (e *Engine) shortages() (list []fleet.Condition) {
	for _, s := range e.dispatch.Shortages() {
		if s.Cause == notice.ShortLog {
			continue
		}

		lasts := time.Since(s.Since)
		list = append(list, fleet.Condition{Urgent: lasts >= urgentShortage,
			Reason: fmt.Sprintf("this machine has lacked a resource (%s) for %s, deferring notices without using an attempt: %s; %s",
				s.Cause, notice.Short(lasts.Round(time.Second)), s.Detail, s.Remedy)})
	}

	return list
}

// ShortSince returns the shortages of this machine that last, and when each began.
func (e *Engine) ShortSince() map[notice.Shortage]time.Time {
	out := map[notice.Shortage]time.Time{}
	for _, s := range e.dispatch.Shortages() {
		out[s.Cause] = s.Since
	}

	return out
}
