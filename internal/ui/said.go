package ui

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
)

// said is the result of a change on the next page. The address names it: a change is a POST that
// redirects, so that reloading repeats nothing.
type said struct {
	Text  text
	Level level
}

// sayings are the results that an address may name. Those with an argument count notices.
var sayings = map[string]said{
	"cancelled":          {say("The notice is cancelled."), fine},
	"in-flight":          {say("The notice is cancelled. An attempt was in flight: it may still arrive, but its result is ignored."), mind},
	"fired":              {say("The notice is due now."), fine},
	"rescheduled":        {say("The notice is rescheduled."), fine},
	"redriven":           {say("The notice is scheduled again, and its ladder restarts."), fine},
	"resent":             {say("The notice is sent once more, and its ladder restarts."), fine},
	"unchanged":          {say("Nothing was changed: the state of the notice has changed since."), mind},
	"paused":             {say("The route is paused. Its notices wait."), mind},
	"resumed":            {say("The route is resumed. Its due notices are attempted within its limits."), fine},
	"group":              {say("%s notice(s) scheduled again."), fine},
	"purged":             {say("%s notice(s) purged. They stay readable, as cancelled, for the retention."), fine},
	"replay-started":     {say("The replay is started."), fine},
	"replay-stopped":     {say("The replay is stopped. Notices that it has already scheduled are delivered."), fine},
	"replay-resumed":     {say("The replay is resumed."), fine},
	"replay-unchanged":   {say("Nothing was changed: the state of the replay has changed since."), mind},
	"receiver-paused":    {say("The receiver is paused. Its due notices are held."), mind},
	"receiver-resumed":   {say("The receiver is resumed. Its held notices are attempted within its limits."), fine},
	"receiver-limited":   {say("The limits of the receiver are set."), fine},
	"receiver-unlimited": {say("The receiver has the limits of its routes."), fine},
	"receiver-unchanged": {say("Nothing was changed: the receiver was not paused."), mind},
	"redirect-stopped":   {say("The redirect is stopped. Notices that it has already changed keep the new address."), fine},
	"redirect-resumed":   {say("The redirect is resumed."), fine},
	"job-stopped":        {say("The job is stopped. Notices that it has already changed stay changed."), fine},
	"job-resumed":        {say("The job is resumed."), fine},
	"redirect-unchanged": {say("Nothing was changed: the state of the job has changed since."), mind},
	"recurrence-paused":  {say("The recurring notice is paused. A notice that has not begun is withdrawn."), mind},
	"recurrence-run":     {say("A notice is scheduled for now. The ticks do not change."), fine},
	"recurrence-created": {say("The recurring notice is created."), fine},
	"recurrence-deleted": {say("The recurring notice is deleted. A notice that has not begun is withdrawn."), fine},
	"recurrence-resumed": {say("The recurring notice is resumed."), fine},
	"signed-out":         {say("You are signed out."), fine},
}

func saidOf(r *http.Request) said {
	if r.URL.RawQuery == "" {
		return said{}
	}

	q := r.URL.Query()
	s := sayings[q.Get("said")]
	if n, err := strconv.Atoi(q.Get("n")); err == nil && s.Text != nil && (q.Get("said") == "group" || q.Get("said") == "purged") {
		s.Text = append(slices.Clone(s.Text), n)
		if q.Get("left") == "1" {
			s.Text = both(s.Text, say("Notices in the unavailable part of Redis were skipped. Repeat this when it is available."))
			s.Level = mind
		}
	}

	return s
}

// back redirects the browser after a change.
func back(w http.ResponseWriter, path string, query url.Values) error {
	if len(query) > 0 {
		path += "?" + query.Encode()
	}

	w.Header().Set("Location", path)
	w.WriteHeader(http.StatusSeeOther)
	return nil
}
