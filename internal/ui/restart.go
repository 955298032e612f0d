package ui

import "notifier/internal/store"

// pendingAgain is the headline of a scheduled notice with attempts. A resent or replayed notice may have been delivered by
// one of them.
func pendingAgain(f *store.Found, tried int, next text) text {
	switch restartOf(f) {
	case resent:
		return say("Resent, after %s attempt(s) in all. Next attempt %s.", tried, next)
	case replayed:
		return say("Replayed, after %s attempt(s) in all. Next attempt %s.", tried, next)
	}
	return say("Not delivered yet, after %s attempt(s). Next attempt %s.", tried, next)
}

// restart is the reason why a notice's ladder started again.
type restart int

const (
	none restart = iota
	redriven
	resent
	replayed
)

// restartOf returns why the ladder last started again. A replay keeps no earlier attempts.
func restartOf(f *store.Found) restart {
	switch {
	case f.Redriven == 0:
		return none
	case f.Resent > 0 && f.Resent == f.Endings:
		return resent
	case f.Replay != "" && (len(f.Attempts) == 0 || f.Attempts[0].Number > f.Redriven):
		return replayed
	}
	return redriven
}

// restartStep is the entry of the timeline behind the attempts before the ladder's restart.
func restartStep(f *store.Found) step {
	title := say("Redriven, ladder restarted")
	switch restartOf(f) {
	case resent:
		title = say("Resent, ladder restarted")
	case replayed:
		title = say("Replayed, ladder restarted")
	}

	return step{Title: title, Level: fine}
}
