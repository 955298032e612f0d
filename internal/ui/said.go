package ui

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
)

// said is what the page after a change says of it. It is chosen by the address, so
// that a change is made by POST and shown by GET, and reloading repeats nothing.
type said struct {
	Text  string
	Level level
}

// sayings are what an address may have a page say; %s is a count of notices.
var sayings = map[string]said{
	"cancelled":        {"The notice is cancelled.", fine},
	"in-flight":        {"The notice is cancelled. An attempt was in flight: it may still arrive, and its result changes nothing.", mind},
	"fired":            {"The notice is due now.", fine},
	"rescheduled":      {"The notice is rescheduled.", fine},
	"redriven":         {"The notice is scheduled again. Its ladder starts again.", fine},
	"unchanged":        {"Nothing was changed: the notice is in another state by now.", mind},
	"paused":           {"The route is paused. Its notices are kept, and wait.", mind},
	"resumed":          {"The route is resumed. Its due notices are attempted within its limits.", fine},
	"group":            {"%s scheduled again.", fine},
	"purged":           {"%s purged. They stay readable as cancelled ones for the retention.", fine},
	"replay-started":   {"The replay is started.", fine},
	"replay-stopped":   {"The replay is stopped. Notices that it has scheduled are delivered.", fine},
	"replay-resumed":   {"The replay goes on.", fine},
	"replay-unchanged": {"Nothing was changed: the replay is in another state by now.", mind},
	"signed-out":       {"You are signed out.", fine},
}

func saidOf(r *http.Request) said {
	if r.URL.RawQuery == "" {
		return said{}
	}
	q := r.URL.Query()
	s := sayings[q.Get("said")]
	if n, err := strconv.Atoi(q.Get("n")); err == nil && s.Text != "" && (q.Get("said") == "group" || q.Get("said") == "purged") {
		s.Text = fmt.Sprintf(s.Text, plural(n, "notice"))
		if q.Get("left") == "1" {
			s.Text, s.Level = s.Text+" Notices in the unavailable part of Redis were skipped: repeat this when it is available.", mind
		}
	}
	return s
}

// back sends the browser from a change to the page that shows what came of it.
func back(w http.ResponseWriter, path string, query url.Values) error {
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	w.Header().Set("Location", path)
	w.WriteHeader(http.StatusSeeOther)
	return nil
}
