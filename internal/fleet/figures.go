package fleet

import (
	"encoding/json"
	"time"

	"notifier/internal/notice"
)

// Figures are the work statistics that an instance publishes with its heartbeats, so that any
// instance can show the work of all.
type Figures struct {
	// Since is the start of the current minute, in Unix ms. Routes counts from then on; earlier
	// work is in the published minutes.
	Since  int64                   `json:"since"`
	Routes map[string]RouteFigures `json:"routes,omitempty"` // by prefix
	Hosts  []HostFigures           `json:"hosts,omitempty"`
	// ClockMS is how far the instance's clock is ahead of Redis's, in ms.
	ClockMS int64 `json:"clock_ms,omitempty"`
	// Places is how many shards the instance knows, old shards included.
	Places int `json:"places,omitempty"`
	// Sides is true if the instance knows that notices may be on the other side of a migration.
	Sides bool `json:"sides,omitempty"`
	// Outbox is true if the instance relays finalized notices to the history.
	Outbox bool `json:"outbox,omitempty"`
	// KeepsNone is true if the instance stores no notice after it was finalized.
	KeepsNone bool `json:"keeps_none,omitempty"`
	// Lost describes the losses of data in Redis that the instance has noticed within the last hour.
	Lost []string `json:"lost,omitempty"`
	// Full says that Redis has refused a write of the instance for lack of memory within the last 10 s; "" = it has not.
	Full string `json:"full,omitempty"`
	// Unwritten is why the instance cannot write finalized notices to the history; "" = it can, or none waits.
	Unwritten string `json:"unwritten,omitempty"`
	// Cut is true if some figures were left out to stay within the size limit.
	Cut bool `json:"cut,omitempty"`
}

// RouteFigures are the figures of one route at one instance.
type RouteFigures struct {
	InFlight int `json:"f,omitempty"`
	// Waiting is how many due notices are deferred at the moment, by cause.
	Waiting map[notice.Held]int `json:"w,omitempty"`
	Work
}

// Waiting returns how many due notices are deferred in all instances, by the prefix of their route.
// Routes without any are missing.
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

// HostFigures are the figures of one destination host of a route.
type HostFigures struct {
	Prefix   string `json:"p"` // of the route
	Host     string `json:"h"` // with its port
	Breaker  string `json:"b,omitempty"`
	RetryMS  int64  `json:"u,omitempty"` // Unix ms of the next trial call of an open breaker
	InFlight int    `json:"f,omitempty"`
	Slots    int    `json:"s,omitempty"` // current limit at this instance; 0 = unlimited
	Waiting  int    `json:"w,omitempty"` // due notices deferred because of the host
	Calls    int64  `json:"n,omitempty"` // in the last one to two minutes
	Failed   int64  `json:"e,omitempty"` // of Calls
	MeanMS   int64  `json:"ms,omitempty"`
	Slowed   bool   `json:"t,omitempty"` // the host has asked for a lower rate
}

// Encode returns the figures as JSON of at most MaxAbout bytes. If they are larger, it leaves out
// hosts, the last ones first, and then the histograms of start delays.
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
		case f.dropDelays():
		default:
			few := Figures{Places: f.Places, Sides: f.Sides, Outbox: f.Outbox, KeepsNone: f.KeepsNone, Lost: f.Lost, Full: f.Full,
				Cut: true} // only short texts
			text, _ = json.Marshal(few)
			return text
		}
	}
}

// dropDelays removes the histograms of start delays. It reports whether there were any.
func (f *Figures) dropDelays() bool {
	some, less := false, make(map[string]RouteFigures, len(f.Routes))
	for prefix, r := range f.Routes {
		some = some || r.Late != nil
		r.Late = nil
		less[prefix] = r
	}

	f.Routes = less
	return some
}

// ReadFigures parses the published figures of an instance. It returns false if there are none or
// they are invalid.
func (i Instance) ReadFigures() (Figures, bool) {
	var f Figures
	if len(i.Figures) == 0 || json.Unmarshal(i.Figures, &f) != nil {
		return Figures{}, false
	}

	return f, true
}

// LacksOutbox reports whether the instance has a version that does not relay finalized notices to
// the history. It is false for an unresponsive instance and one that publishes no figures.
func (i Instance) LacksOutbox() bool {
	f, ok := i.ReadFigures()
	return ok && !f.Outbox && i.State != Unresponsive
}

// MinutesKept is how long published minutes are stored.
const MinutesKept = 70 * time.Minute

// Minute is the work of one instance in one minute, or in the part of a minute that it ran.
type Minute struct {
	Instance string          `json:"i"`
	At       int64           `json:"at"` // Unix ms of its end
	Routes   map[string]Work `json:"routes"`
}

// Encode returns the minute as JSON.
func (m Minute) Encode() (string, error) {
	text, err := json.Marshal(m)
	return string(text), err
}

// ReadMinutes parses published minutes. Invalid ones, such as those of a later version, are
// skipped.
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
