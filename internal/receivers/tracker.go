package receivers

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"
)

const (
	// mostPerCall is the maximum number of receivers in one call of the script.
	mostPerCall = 64
	// mostTurned and mostOther limit the receivers that a write has: those that began or ceased to fail, and the others.
	// With both, a write takes some 15 ms of Redis.
	mostTurned = 1024
	mostOther  = 64
	// seenPerRoute is the maximum number of receivers of a route in an instance's memory. Above it, healthy
	// receivers are removed.
	seenPerRoute = 4096
	// okEvery is how often the successes of a receiver that recovered are written.
	okEvery = time.Minute
	// refusedFor is the time until a receiver is written again that did not fit into the hash.
	refusedFor = time.Hour
)

// Attempt is one finished attempt.
type Attempt struct {
	At     time.Time // by Redis's clock
	Failed bool
	Status int    // of the HTTP answer; 0 = none
	Reason string // of a failure
	Took   time.Duration
}

// Tracker collects the attempts of this instance. It is safe for concurrent use.
type Tracker struct {
	// Logger, if any, receives a warning when a receiver begins and when it ceases to fail.
	Logger *zap.Logger

	mu     sync.Mutex
	routes map[string]*observed // by prefix
	lines  lines
}

// observed has the observations of an instance about the receivers of one route.
type observed struct {
	by map[string]*seen
	// listed has the receivers to write. True: the receiver began or ceased to fail since the last write.
	listed map[string]bool
	asked  bool // receivers had successes since the last Sync
}

// seen has the observations of an instance about one receiver. first, n and fail count the attempts
// since the last write.
type seen struct {
	first, fail int64 // Unix ms of the first and the last failure
	n           int   // failures after ok
	ok, last    int64
	status      int
	reason      string
	stored      bool  // the hash has it
	failing     bool  // its last attempt failed, here or, by the hash, at another instance
	written     int64 // Unix ms of the last write
	refused     int64 // Unix ms of the last write that did not fit into the hash
	// hour and answers are of the attempts since the last write, within the hour of the last one.
	hour    tally
	answers []Attempt
	row     row // not part of a write
}

// tally counts the attempts of an hour.
type tally struct {
	at               int64 // hours since the epoch
	attempts, failed int
	took             time.Duration
}

func (t *tally) add(o tally) {
	if o.at != t.at {
		if o.at > t.at {
			*t = o
		}
		return
	}
	t.attempts, t.failed, t.took = t.attempts+o.attempts, t.failed+o.failed, t.took+o.took
}

// count adds an attempt to the hour, and to the answers if the receiver is one that failed.
func (s *seen) count(a Attempt) {
	one := tally{at: a.At.Unix() / 3600, attempts: 1, took: a.Took}
	if a.Failed {
		one.failed = 1
	}

	s.hour.add(one)
	if s.stored || s.failing || a.Failed {
		s.answers = append(s.answers, a)
		s.answers = s.answers[max(0, len(s.answers)-mostAnswers):]
	}
}

// NewTracker makes a Tracker that has seen nothing.
func NewTracker() *Tracker { return &Tracker{routes: map[string]*observed{}} }

// Observe adds an attempt. A nil Tracker drops it.
func (t *Tracker) Observe(prefix, receiver string, a Attempt) {
	if t == nil || receiver == "" {
		return
	}

	t.mu.Lock()
	o := t.routes[prefix]
	if o == nil {
		o = &observed{by: map[string]*seen{}, listed: map[string]bool{}}
		t.routes[prefix] = o
	}

	s := o.add(receiver, a)
	log := t.lines.of(s.row.add(a), a.At)
	t.mu.Unlock()
	log.write(t.Logger, prefix, receiver, a)
}

func (o *observed) add(receiver string, a Attempt) *seen {
	s := o.by[receiver]
	if s == nil {
		if len(o.by) >= seenPerRoute {
			o.forget()
		}

		s = &seen{}
		o.by[receiver] = s
	}

	at := a.At.UnixMilli()
	if at >= s.last {
		s.last, s.status, s.reason = at, a.Status, a.Reason
	}

	s.count(a)

	if !a.Failed {
		s.ok, s.n = max(s.ok, at), 0
		o.asked = true
		if s.stored && (s.failing || at-s.written >= okEvery.Milliseconds()) || s.first > 0 {
			o.list(receiver, s.failing)
		}

		s.failing = false
		return s
	}

	turned := !s.failing
	s.failing = true
	if s.first == 0 {
		s.first = at
	}

	s.fail, s.n = max(s.fail, at), s.n+1
	if at-s.refused >= refusedFor.Milliseconds() {
		o.list(receiver, turned)
	}

	return s
}

// list adds a receiver to those to write. turned: it began or ceased to fail.
func (o *observed) list(receiver string, turned bool) {
	o.listed[receiver] = o.listed[receiver] || turned
}

// forget drops receivers of which nothing has to be written, about half of the room at most.
func (o *observed) forget() {
	for name, s := range o.by {
		if _, listed := o.listed[name]; !listed && !s.failing {
			delete(o.by, name)
		}
		if len(o.by) <= seenPerRoute/2 {
			return
		}
	}
	for name := range o.by { // all fail: the hash has them, or no place for them
		if _, listed := o.listed[name]; !listed {
			delete(o.by, name)
			return
		}
	}
}

// change is the observation of one receiver that one write stores.
type change struct {
	prefix, receiver string
	turned           bool // the receiver began or ceased to fail
	seen             seen
}

// before orders changes: receivers that began or ceased to fail, the latest first, then the others, the one written
// longest ago first.
func (c change) before(d change) int {
	switch {
	case c.turned && d.turned:
		return cmp.Compare(d.seen.last, c.seen.last)
	case c.turned:
		return -1
	case d.turned:
		return 1
	}
	return cmp.Compare(max(c.seen.written, c.seen.refused), max(d.seen.written, d.seen.refused))
}

// take removes and returns changes of all routes together: at most that many of receivers that began or ceased to fail,
// and of others.
func (t *Tracker) take(mostTurned, mostOther int) (out []change) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for prefix, o := range t.routes {
		for name, turned := range o.listed {
			out = append(out, change{prefix, name, turned, *o.by[name]})
		}
	}

	slices.SortFunc(out, change.before)
	out = slices.DeleteFunc(out, func(c change) bool {
		left := &mostOther
		if c.turned {
			left = &mostTurned
		}

		*left--
		return *left < 0
	})
	for _, c := range out {
		o := t.routes[c.prefix]
		delete(o.listed, c.receiver)
		s := o.by[c.receiver]
		s.first, s.fail, s.n, s.hour, s.answers = 0, 0, 0, tally{}, nil
	}

	return out
}

// wrote notes a write that succeeded; refused are the receivers that found no place.
func (t *Tracker) wrote(prefix string, list []change, refused []string, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	o := t.routes[prefix]
	for _, c := range list {
		s := o.by[c.receiver]
		switch {
		case s == nil:
		case slices.Contains(refused, c.receiver):
			s.refused = now.UnixMilli()
		default:
			s.stored, s.written = true, now.UnixMilli()
		}
	}
}

// undo puts changes back whose write failed, so that the next one has them.
func (t *Tracker) undo(prefix string, list []change) {
	t.mu.Lock()
	defer t.mu.Unlock()
	o := t.routes[prefix]
	for _, c := range list {
		s := o.by[c.receiver]
		if s == nil {
			s = &seen{}
			*s = c.seen
			o.by[c.receiver] = s
		} else {
			if c.seen.first > 0 {
				s.first = c.seen.first
			}

			s.fail = max(s.fail, c.seen.fail)
			s.hour.add(c.seen.hour)
			s.answers = append(slices.Clone(c.seen.answers), s.answers...)
			if s.ok <= c.seen.ok { // no success since
				s.n += c.seen.n
			}
		}

		o.list(c.receiver, c.turned)
	}
}

// Changed reports whether there is something to write.
func (t *Tracker) Changed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, o := range t.routes {
		if len(o.listed) > 0 {
			return true
		}
	}

	return false
}

// Failing reports whether a receiver fails at this instance.
func (t *Tracker) Failing() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, o := range t.routes {
		for _, s := range o.by {
			if s.failing {
				return true
			}
		}
	}

	return false
}

// unknown returns the routes with successes since the last Sync. Their receivers may fail in the hash.
func (t *Tracker) unknown() (prefixes []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for prefix, o := range t.routes {
		if o.asked {
			prefixes = append(prefixes, prefix)
		}
	}

	return prefixes
}

// learn notes which receivers fail at other instances: their next success here is written.
func (t *Tracker) learn(h RouteHealth) {
	t.mu.Lock()
	defer t.mu.Unlock()
	o := t.routes[h.Prefix]
	if o == nil {
		return
	}

	o.asked = false
	for _, r := range h.Receivers {
		s := o.by[r.Name]
		if s == nil {
			continue
		}

		s.stored = true
		if r.Failing() && s.ok > r.Since.UnixMilli() {
			o.list(r.Name, true)
		}

		s.failing = s.failing || r.Failing()
	}
}
