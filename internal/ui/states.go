package ui

import (
	"fmt"
	"net/http"

	"notifier/internal/audit"
	"notifier/internal/doctor"
	"notifier/internal/fleet"
	"notifier/internal/history"
	"notifier/internal/notice"
	"notifier/internal/sign"
)

// stateTexts are the states and results that pages show as words. Values that operators search for,
// such as reasons and actions, are shown as they are.
var stateTexts = map[string]text{
	string(notice.Scheduled):      say("scheduled"),
	string(notice.Claimed):        say("claimed"),
	string(notice.Delivered):      say("delivered"),
	string(notice.Dead):           say("dead"),
	string(notice.Cancelled):      say("cancelled"),
	string(notice.Settled):        say("settled"),
	string(notice.Lost):           say("lost"),
	string(notice.EndReplaced):    say("replaced"),
	string(fleet.Alive):           say("alive"),
	string(fleet.Leaving):         say("leaving"),
	string(fleet.Unresponsive):    say("unresponsive"),
	string(history.ReplayRunning): say("running"),
	string(history.ReplayStopped): say("stopped"),
	string(history.ReplayFailed):  say("failed"),
	string(audit.Done):            say("done"),
	string(doctor.Error):          say("error"),
	string(doctor.Warning):        say("warning"),
	string(doctor.OK):             say("passed"),
	string(doctor.Info):           say("info"),
	fixed:                         say("fixed"),
	string(sign.PerRoute):         say("per|route"),
	string(sign.PerHost):          say("per|host"),
	string(sign.PerAudience):      say("per|audience"),
	string(sign.PerHostRoute):     say("per|host and route"),
}

// fixed is the severity of a finding that doctor has repaired.
const fixed = "fixed"

// stateText returns the words for a state; a state without words is shown as it is.
func stateText(state any) text {
	name := fmt.Sprint(state)
	if t, ok := stateTexts[name]; ok {
		return t
	}

	return plain(name)
}

// statusTexts are the titles of pages that say why something failed.
var statusTexts = map[int]text{
	http.StatusBadRequest:          say("Bad request"),
	http.StatusForbidden:           say("Forbidden"),
	http.StatusNotFound:            say("Not found"),
	http.StatusConflict:            say("Conflict"),
	http.StatusGone:                say("Gone"),
	http.StatusMisdirectedRequest:  say("Misdirected request"),
	http.StatusUnprocessableEntity: say("Invalid input"),
	http.StatusTooManyRequests:     say("Too many requests"),
	http.StatusInsufficientStorage: say("Redis is full"),
	http.StatusServiceUnavailable:  say("Service unavailable"),
}

// statusText returns the title of a page for a status.
func statusText(status int) text {
	if t, ok := statusTexts[status]; ok {
		return t
	}
	return say("Internal error")
}
