package chaos

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// span is one fault, from its begin to its end.
type span struct {
	what     string
	from, to time.Time // to is zero while it lasts
	strikes  []strike
	// duplicates: while the fault lasts, an attempt in flight may be made again.
	duplicates bool
	// overtakes: while the fault lasts, a notice of an ordered route may overtake its predecessor.
	overtakes bool
	// felt is how long after its end the fault may still be the cause.
	felt time.Duration
}

// strike is an instant at which a fault takes effect.
type strike struct {
	at       time.Time
	instance string // the instance that it hits; empty = all
}

// arrival is one request at the receiver.
type arrival struct {
	id       string
	instance string // that made the call
	attempt  int
	due      time.Time
	at, done time.Time
	clock    time.Time // the latest that Redis's clock said before the request
	ok       bool      // answered with 200
}

// promise is a notice that a call acknowledged.
type promise struct {
	id        string
	due       time.Time
	expires   time.Time // zero = it does not
	acked     time.Time
	cancelled time.Time // acknowledged, and no attempt was under way
}

// ledger is the producer's log and the receiver's.
type ledger struct {
	mu       sync.Mutex
	promises map[string]*promise
	arrivals map[string][]*arrival
	faults   []*span
	clock    []setting         // of Redis, oldest first
	dead     map[string]string // reasons
	wrong    []string          // dead letters with a reason that cannot be
}

// setting is an offset that Redis's clock had from an instant on.
type setting struct {
	from   time.Time
	offset time.Duration
}

func newLedger() *ledger {
	return &ledger{promises: map[string]*promise{}, arrivals: map[string][]*arrival{}, dead: map[string]string{}, clock: []setting{{}}}
}

// latest is the latest time that Redis's clock may have said between two instants.
func (l *ledger) latest(from, to time.Time) time.Time {
	best := time.Time{}
	for i, s := range l.clock {
		until := to
		if i+1 < len(l.clock) && l.clock[i+1].from.Before(to) {
			until = l.clock[i+1].from
		}
		if until.After(from) && s.from.Before(to) {
			if at := until.Add(s.offset); at.After(best) {
				best = at
			}
		}
	}
	return best
}

// begin notes a fault; the function that it returns notes its end.
func (l *ledger) begin(what string, duplicates bool, felt time.Duration) (s *span, end func()) {
	s = &span{what: what, duplicates: duplicates, felt: felt, from: time.Now()}
	l.mu.Lock()
	l.faults = append(l.faults, s)
	l.mu.Unlock()
	return s, func() {
		l.mu.Lock()
		s.to = time.Now()
		l.mu.Unlock()
	}
}

// strike notes the instant at which a fault takes effect, on one instance or on all
// (empty). It is called right before.
func (l *ledger) strike(s *span, instance string) {
	l.mu.Lock()
	s.strikes = append(s.strikes, strike{time.Now(), instance})
	l.mu.Unlock()
}

// waiting are the promised notices that are due for longer than a time and have not arrived.
func (l *ledger) waiting(since time.Duration) (keys []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	clock := now.Add(l.clock[len(l.clock)-1].offset)
	for key, p := range l.promises {
		if len(l.arrivals[key]) == 0 && p.cancelled.IsZero() && clock.Sub(p.due) > since && now.Sub(p.acked) > since && l.dead[key] == "" &&
			!l.expired(p, now) {
			keys = append(keys, key)
		}
	}
	return keys
}

// unfinished are the promised notices that are neither answered with 200 nor dead.
func (l *ledger) unfinished() (keys []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, p := range l.promises {
		if p.cancelled.IsZero() && l.dead[key] == "" && !slices.ContainsFunc(l.arrivals[key], func(a *arrival) bool { return a.ok }) {
			keys = append(keys, key)
		}
	}
	return keys
}

// verdict is the result of a run.
type verdict struct {
	Promised, Cancelled, Arrivals, Dead int
	Faults                              map[string]*effect
	// Unpromised are arrivals of notices that no call had acknowledged when a failover
	// lost them: the producer's next call made the notice again, under another webhook-id.
	Unpromised                   int
	Lost, Early, Uncalled, Wrong []string
	Expired                      []string // attempts after the expiry
	Duplicates, Unexplained      []duplicate
	P50, P99                     time.Duration // of first arrivals
}

// effect sums up the faults of one name.
type effect struct {
	times      int
	duplicates bool
	inFlight   map[string]int // calls in flight at the strikes, by instance
	caused     int            // duplicates
}

// duplicate is a delivery that was made again.
type duplicate struct {
	key           string
	first, second *arrival
	cause         *span // nil = unexplained
}

func (d duplicate) String() string {
	cause := "no fault that may duplicate hit the first one"
	if d.cause != nil {
		cause = d.cause.what
	}
	return fmt.Sprintf("%s: attempt %d by %s at %s, again attempt %d by %s at %s: %s", d.key, d.first.attempt, d.first.instance,
		d.first.at.Format(stamp),
		d.second.attempt, d.second.instance, d.second.at.Format(stamp), cause)
}

const (
	// felt is how long before a request Redis's clock may have been read for it.
	felt = 10 * time.Second
	// unsettled is how long after the receiver's answer an attempt is in flight: until its
	// settle is written, and a replica has it.
	unsettled = 500 * time.Millisecond
	stamp     = "15:04:05.000"
)

// inFlight reports whether a call was in flight at an instant.
func (a *arrival) inFlight(at time.Time) bool {
	return !a.at.After(at) && a.done.Add(unsettled).After(at)
}

// mayRepeat reports whether a fault may have caused a repetition of an attempt. The fault must
// allow duplicates and have hit the instance of the attempt. The attempt must have been in
// flight when the fault struck or while it lasted.
func (s *span) mayRepeat(a *arrival) bool {
	if !s.duplicates {
		return false
	}
	end := s.to
	if end.IsZero() {
		end = time.Now()
	}
	end = end.Add(s.felt)
	for _, hit := range s.strikes {
		if (hit.instance == "" || hit.instance == a.instance) && a.at.Before(end) && a.done.Add(unsettled).After(hit.at) {
			return true
		}
	}
	return false
}

// before returns the last arrival after which another one is a duplicate: it was answered
// with 200, or it was the same attempt or a later one.
func before(list []*arrival, a *arrival) *arrival {
	for _, b := range slices.Backward(list) {
		if b.ok || b.attempt >= a.attempt {
			return b
		}
	}
	return nil
}

// explain is the fault that explains a duplicate, if there is one: a fault that hit the
// first attempt, or, where the second is the older one, a fault that delayed it.
func (l *ledger) explain(first, second *arrival) *span {
	if s := l.cause(first); s != nil || second.attempt >= first.attempt {
		return s
	}
	return l.cause(second)
}

// cause is the fault that had an attempt made again: of several the one that began last.
func (l *ledger) cause(a *arrival) (best *span) {
	for _, s := range l.faults {
		if s.mayRepeat(a) && (best == nil || s.from.After(best.from)) {
			best = s
		}
	}
	return best
}

func (l *ledger) judge() *verdict {
	l.mu.Lock()
	defer l.mu.Unlock()
	v := &verdict{Promised: len(l.promises), Dead: len(l.dead), Faults: l.effects(), Wrong: slices.Clone(l.wrong)}
	var late []time.Duration
	for key, p := range l.promises {
		v.Arrivals += len(l.arrivals[key])
		list := v.acknowledged(l.arrivals[key], p)
		if !p.cancelled.IsZero() {
			v.Cancelled++
		}
		answered := false
		for i, a := range list {
			v.check(key, p, a)
			l.checkExpiry(v, key, p, a)
			if i == 0 {
				late = append(late, a.at.Sub(a.due))
			}
			if first := before(list[:i], a); first != nil {
				v.duplicate(duplicate{key, first, a, l.explain(first, a)})
			}
			answered = answered || a.ok
		}
		if p.cancelled.IsZero() && !answered && l.dead[key] == "" {
			v.Lost = append(v.Lost, key)
		}
	}
	slices.Sort(late)
	if n := len(late); n > 0 {
		v.P50, v.P99 = late[n/2], late[n*99/100]
	}
	slices.SortFunc(v.Duplicates, func(a, b duplicate) int { return a.second.at.Compare(b.second.at) })
	return v
}

// acknowledged are the arrivals of the notice that was acknowledged.
func (v *verdict) acknowledged(all []*arrival, p *promise) (list []*arrival) {
	for _, a := range all {
		if a.id != p.id && a.at.Before(p.acked) {
			v.Unpromised++
		} else {
			list = append(list, a)
		}
	}
	return list
}

// check compares an arrival with its promise.
func (v *verdict) check(key string, p *promise, a *arrival) {
	if a.clock.Before(a.due) {
		v.Early = append(v.Early, fmt.Sprintf("%s attempt %d, %s", key, a.attempt, a.due.Sub(a.clock)))
	}
	if !p.cancelled.IsZero() && a.at.After(p.cancelled) {
		v.Uncalled = append(v.Uncalled, fmt.Sprintf("%s attempt %d, %s after it was cancelled", key, a.attempt, a.at.Sub(p.cancelled)))
	}
	if a.id != p.id {
		v.Wrong = append(v.Wrong, fmt.Sprintf("%s was acknowledged as %s at %s and came as %s at %s", key, p.id, p.acked.Format(stamp), a.id,
			a.at.Format(stamp)))
	}
}

func (v *verdict) duplicate(d duplicate) {
	v.Duplicates = append(v.Duplicates, d)
	if d.cause == nil {
		v.Unexplained = append(v.Unexplained, d)
		return
	}
	v.Faults[d.cause.what].caused++
}

// effects counts the faults, and the calls in flight at the instants at which they struck.
func (l *ledger) effects() map[string]*effect {
	var all []*arrival
	longest := time.Duration(0)
	for _, list := range l.arrivals {
		for _, a := range list {
			all = append(all, a)
			longest = max(longest, a.done.Sub(a.at)+unsettled)
		}
	}
	slices.SortFunc(all, func(a, b *arrival) int { return a.at.Compare(b.at) })

	out := map[string]*effect{}
	for _, s := range l.faults {
		e := out[s.what]
		if e == nil {
			e = &effect{duplicates: s.duplicates, inFlight: map[string]int{}}
			out[s.what] = e
		}
		e.times++
		for _, hit := range s.strikes {
			from, _ := slices.BinarySearchFunc(all, hit.at.Add(-longest), func(a *arrival, t time.Time) int { return a.at.Compare(t) })
			for _, a := range all[from:] {
				if a.at.After(hit.at) {
					break
				}
				if a.inFlight(hit.at) && (hit.instance == "" || hit.instance == a.instance) {
					e.inFlight[a.instance]++
				}
			}
		}
	}
	return out
}

func (v *verdict) ok() bool {
	return len(v.Lost)+len(v.Early)+len(v.Expired)+len(v.Uncalled)+len(v.Wrong)+len(v.Unexplained) == 0 && v.Promised > 0
}

// counts spells a count for each name.
func counts(m map[string]int) string {
	var list []string
	for name, n := range m {
		list = append(list, fmt.Sprintf("%s %d", name, n))
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}
