package fleet

import (
	"encoding/json"
	"time"

	"notifier/internal/metrics"
	"notifier/internal/notice"
)

// Figures are what an instance tells of its work beside its sign of life, so that
// any instance can show what all do together.
type Figures struct {
	// Since is when the running minute began, Unix ms: Routes tell what was done
	// from then on, and what was done before is in the minutes.
	Since  int64                   `json:"since"`
	Routes map[string]RouteFigures `json:"routes,omitempty"` // by prefix
	Hosts  []HostFigures           `json:"hosts,omitempty"`
	// ClockMS is how far its clock is ahead of Redis's, in ms.
	ClockMS int64 `json:"clock_ms,omitempty"`
	// Places is of how many shards it knows, former ones included.
	Places int `json:"places,omitempty"`
	// Sides: it knows that notices may be on the other side of a migration.
	Sides bool `json:"sides,omitempty"`
	// Outbox: it hands finalized notices over to the history.
	Outbox bool `json:"outbox,omitempty"`
	// Cut: there was no room for all of it.
	Cut bool `json:"cut,omitempty"`
}

// RouteFigures are those of a route.
type RouteFigures struct {
	InFlight int `json:"f,omitempty"`
	// Waiting is how many due notices it has postponed and not taken up again, by the cause.
	Waiting map[notice.Held]int `json:"w,omitempty"`
	metrics.Work
}

// Waiting is how many due notices wait because instances have postponed them, by the prefix
// of their route, as the instances publish it. Routes without any are missing.
func Waiting(list []Instance) map[string]int {
	waiting := map[string]int{}
	for _, i := range list {
		f, _ := i.ReadFigures()
		for prefix, r := range f.Routes {
			for _, n := range r.Waiting {
				waiting[prefix] += n
			}
		}
	}
	return waiting
}

// HostFigures are those of a destination of a route.
type HostFigures struct {
	Prefix   string `json:"p"` // of the route
	Host     string `json:"h"` // with its port
	Breaker  string `json:"b,omitempty"`
	RetryMS  int64  `json:"u,omitempty"` // Unix ms of the next try of an open breaker
	InFlight int    `json:"f,omitempty"`
	Slots    int    `json:"s,omitempty"` // that it may take here now; 0 = unlimited
	Waiting  int    `json:"w,omitempty"` // due notices that it has postponed because of the host
	Calls    int64  `json:"n,omitempty"` // within the last minute or two
	Failed   int64  `json:"e,omitempty"` // of them
	MeanMS   int64  `json:"ms,omitempty"`
	Slowed   bool   `json:"t,omitempty"` // it asked to be called less
}

// Encode writes figures in as many bytes as may be told: where that is too few,
// hosts are left out first, the last ones first, then how late attempts were.
func (f Figures) Encode() []byte {
	for {
		text, err := json.Marshal(f)
		if err == nil && len(text) <= MaxAbout {
			return text
		}
		f.Cut = true
		switch {
		case len(f.Hosts) > 0:
			f.Hosts = f.Hosts[:len(f.Hosts)/2]
		case f.spare():
		default:
			text, _ = json.Marshal(Figures{Places: f.Places, Sides: f.Sides, Outbox: f.Outbox, Cut: true}) // no text is in it
			return text
		}
	}
}

// spare leaves out how late attempts were; false = that was done already.
func (f *Figures) spare() bool {
	some, less := false, make(map[string]RouteFigures, len(f.Routes))
	for prefix, r := range f.Routes {
		some = some || r.Late != nil
		r.Late = nil
		less[prefix] = r
	}
	f.Routes = less
	return some
}

// ReadFigures reads what an instance tells; false = it tells none that can be
// read.
func (i Instance) ReadFigures() (Figures, bool) {
	var f Figures
	if len(i.Figures) == 0 || json.Unmarshal(i.Figures, &f) != nil {
		return Figures{}, false
	}
	return f, true
}

// LacksOutbox reports whether the instance publishes figures, and is of a version that
// hands no finalized notices over to the history.
func (i Instance) LacksOutbox() bool {
	f, ok := i.ReadFigures()
	return ok && !f.Outbox && i.State != Silent
}

// MinutesKept is how long minutes are kept.
const MinutesKept = 70 * time.Minute

// Minute is what one instance did in a minute, or in what was left of one.
type Minute struct {
	Instance string                  `json:"i"`
	At       int64                   `json:"at"` // Unix ms of its end
	Routes   map[string]metrics.Work `json:"routes"`
}

// Encode writes a minute.
func (m Minute) Encode() (string, error) {
	text, err := json.Marshal(m)
	return string(text), err
}

// ReadMinutes reads minutes; what cannot be read, as of a later version, is left
// out.
func ReadMinutes(list []MinuteEntry) []Minute {
	out := make([]Minute, 0, len(list))
	for _, e := range list {
		var m Minute
		if json.Unmarshal([]byte(e.Text), &m) == nil && m.At > 0 {
			out = append(out, m)
		}
	}
	return out
}
