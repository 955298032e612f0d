package dispatch

import "notifier/internal/notice"

// trigger is the cause of a claim, or of the end of an attempt.
type trigger uint8

const (
	triggerSweep  trigger = iota // a sweep of overdue notices, or of a dead instance's claims
	triggerEvent                 // an expired event
	triggerHint                  // a call of this process or another instance that names the notice
	triggerReport                // a consumer's report; it causes no claim
)

// source is the trigger's label in logs and metrics. Hints count as sweeps: only expired
// events are labelled as events.
func (t trigger) source() notice.Source {
	switch t {
	case triggerEvent:
		return notice.SourceEvent
	case triggerReport:
		return notice.SourceReport
	}
	return notice.SourceSweep
}

// swept is how many of n slots are taken by a sweep.
func (t trigger) swept(n int) int {
	if t == triggerSweep {
		return n
	}
	return 0
}
