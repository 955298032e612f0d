package receivers

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/route"
)

// Receiver names the notices of a pause or limit. Host, Audience or both are set.
type Receiver struct {
	Prefix   string // of the notice keys; empty = all
	Host     string // a name (all its ports) or name:port, as package notice normalizes it
	Audience string
}

// String returns the field of the receiver's pause.
func (r Receiver) String() string {
	switch {
	case r.Audience != "" && r.Host != "":
		return "both/" + r.Host + "/" + r.Audience + "/" + r.Prefix
	case r.Audience != "":
		return "audience/" + r.Audience + "/" + r.Prefix
	}
	return "host/" + r.Host + "/" + r.Prefix
}

// Pause is a paused receiver, or one whose notices are being released.
type Pause struct {
	Receiver
	// At is when the receiver was paused, or resumed if Resumed is set.
	At time.Time
	// Until is the end of the pause; zero = until it is resumed.
	Until time.Time
	// Over is the time over which the held notices are spread after the end.
	Over    time.Duration
	Resumed bool
	// Client has made the pause; empty if no client is configured.
	Client string
	// Rule is the setting and its cause that made the pause, such as "ON_STATUS 401"; empty = a client has made it. Such a
	// pause began at Since, and holds only the notices that [Holds.Ruled] assigns to its receiver.
	Rule  string
	Since time.Time
	// Told means that the hook of the route has a notice of the pause, but none of its end.
	Told bool
	// Probe is the key of the notice that is called next in spite of the pause, if it was created at Made, its next attempt has
	// the number Attempt, and it was deferred Locked times since the last one; it was chosen at Probed.
	Probe   string
	Made    notice.Made
	Attempt int
	Locked  int
	Probed  time.Time

	text string // as it is stored
}

// Active reports whether notices are held at that time.
func (p *Pause) Active(now time.Time) bool {
	return !p.Resumed && (p.Until.IsZero() || now.Before(p.Until))
}

// ended returns the time of the resume, or of the end of the pause.
func (p *Pause) ended() time.Time {
	if p.Resumed {
		return p.At
	}
	return p.Until
}

// RuleOf reports whether a route has the setting that made the pause. A nil route has none.
func (p *Pause) RuleOf(r *route.Route) bool {
	setting, cause, _ := strings.Cut(p.Rule, " ")
	status, _ := strconv.Atoi(cause)
	switch {
	case r == nil:
		return false
	case setting == onStatus:
		return r.OnStatus[status] == route.ActionPause
	case setting == pauseAfter:
		return r.PauseAfter > 0
	}

	return true // a setting of a later version
}

// Limit is the limits of a host on each route under the prefix.
type Limit struct {
	Receiver
	At time.Time
	// Rate is the maximum number of calls a second, Concurrency of concurrent calls; 0 = the route's.
	Rate        float64
	Concurrency int
}

func limitField(r Receiver) string { return "limit/" + r.Host + "/" + r.Prefix }

// value is a pause or the limits of a receiver, as stored in Redis: a JSON object in a field of notifier:receivers.
// Each applies to the notices whose key has the prefix; an empty prefix covers all notices.
//
//	field                         value
//	host/<host>/<prefix>          the pause of a host
//	audience/<audience>/<prefix>  the pause of an audience (the recipient that a notice names)
//	both/<host>/<audience>/<prefix>  the pause of an audience at one host
//	limit/<host>/<prefix>         the maximum rate and concurrency of calls to a host
type value struct {
	At          int64   `json:"at,omitempty"`      // Unix ms, set by the script
	Client      string  `json:"client,omitempty"`  // that has made the entry, set by the script
	Until       int64   `json:"until,omitempty"`   // Unix ms
	Over        int64   `json:"over,omitempty"`    // ms
	Resumed     int     `json:"resumed,omitempty"` // 1 = yes
	Rule        string  `json:"rule,omitempty"`
	Since       int64   `json:"since,omitempty"` // Unix ms
	Told        int     `json:"told,omitempty"`  // 1 = yes
	Probe       string  `json:"probe,omitempty"`
	Made        int64   `json:"made,omitempty"` // notice.Made
	Attempt     int     `json:"attempt,omitempty"`
	Locked      int     `json:"locked,omitempty"`
	Probed      int64   `json:"probed,omitempty"` // Unix ms
	Rate        float64 `json:"rate,omitempty"`
	Concurrency int     `json:"concurrency,omitempty"`
}

// text returns the value as layout.SetReceiver takes it.
func (v value) text() string {
	b, _ := json.Marshal(v) // of numbers and texts
	if string(b) == "{}" {
		return "}"
	}

	return "," + string(b[1:])
}

// readEntry parses an entry. Entries of a later version are skipped.
func readEntry(field, text string) (p *Pause, l *Limit) {
	kind, rest, _ := strings.Cut(field, "/")
	name, prefix, ok := strings.Cut(rest, "/")
	var v value
	if !ok || name == "" || json.Unmarshal([]byte(text), &v) != nil {
		return nil, nil
	}

	r := Receiver{Prefix: prefix, Host: name}
	if kind == "limit" {
		return nil, &Limit{r, instant(v.At), v.Rate, v.Concurrency}
	}

	switch kind {
	case "audience":
		r.Host, r.Audience = "", name
	case "both":
		r.Audience, r.Prefix, _ = strings.Cut(prefix, "/")
	}

	if r.String() != field {
		return nil, nil
	}

	return &Pause{Receiver: r, At: instant(v.At), Until: instant(v.Until), Over: time.Duration(v.Over) * time.Millisecond,
		Resumed: v.Resumed == 1, Client: v.Client, Rule: v.Rule, Since: instant(v.Since), Told: v.Told == 1,
		Probe: v.Probe, Made: notice.Made(v.Made), Attempt: v.Attempt, Locked: v.Locked, Probed: instant(v.Probed), text: text}, nil
}

// covers reports whether a receiver's prefix includes a notice key or a route's prefix.
func (r Receiver) covers(key string) bool { return keys.HasPrefix(key, r.Prefix) || key == r.Prefix }
