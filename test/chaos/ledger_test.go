//go:build chaos

package chaos

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// span is a time in which something was wrong.
type span struct {
	what     string
	from, to time.Time // to is zero while it lasts
}

// arrival is one request at the receiver.
type arrival struct {
	id       string
	attempt  int
	due      time.Time
	at, done time.Time
	clock    time.Time // the latest that Redis's clock said while it was on its way
	ok       bool      // answered with 200
}

// promise is what a call acknowledged.
type promise struct {
	id        string
	due       time.Time
	acked     time.Time
	cancelled time.Time // acknowledged, and no attempt was under way
}

// ledger is the producer's log and the receiver's.
type ledger struct {
	mu       sync.Mutex
	promises map[string]*promise
	arrivals map[string][]*arrival
	faults   []*span
	clock    []setting // of Redis, oldest first
	dead     map[string]string
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

// begin notes a fault; the function it returns notes its end.
func (l *ledger) begin(what string) (end func()) {
	s := &span{what: what, from: time.Now()}
	l.mu.Lock()
	l.faults = append(l.faults, s)
	l.mu.Unlock()
	return func() {
		l.mu.Lock()
		s.to = time.Now()
		l.mu.Unlock()
	}
}

// waiting are those that are promised, due for longer than a time and have not arrived.
func (l *ledger) waiting(since time.Duration) (keys []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	clock := now.Add(l.clock[len(l.clock)-1].offset)
	for key, p := range l.promises {
		if len(l.arrivals[key]) == 0 && p.cancelled.IsZero() && clock.Sub(p.due) > since && now.Sub(p.acked) > since && l.dead[key] == "" {
			keys = append(keys, key)
		}
	}
	return keys
}

// unfinished are those that are promised and neither answered with 200 nor dead.
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

// verdict is what the ledger says in the end.
type verdict struct {
	Promised, Cancelled, Arrivals, Dead int
	Faults                              map[string]int
	// Unpromised are arrivals of makings that no call had acknowledged when a failover
	// lost them: the producer's next call made the notice anew, under another webhook-id.
	Unpromised int
	// UnderWay is how many arrivals were under way during a fault: the bound of doubles.
	UnderWay                     int
	Lost, Early, Uncalled, Wrong []string
	Doubles, Explained           int
	Unexplained                  []string
	P50, P99, Worst              time.Duration // of first arrivals, without a fault in the last seconds
	causes                       map[string]int
}

// How long a receiver's answer takes to be settled, and how long a fault is felt
// after its end: leases end, queues of settles are worked off, connections come back.
const (
	settling = 2 * time.Second
	felt     = 10 * time.Second
)

// strength orders faults by how likely they are to let an attempt be made again.
var strength = []string{"killed", "fails over", "clock", "instance stopped", "redis stopped", "disk full", "network", "memory full", "ended", ""}

// fault is the strongest fault that was felt between two instants; within is how long it is felt.
func (l *ledger) fault(from, to time.Time, within time.Duration) *span {
	var best *span
	rank := len(strength)
	for _, s := range l.faults {
		end := s.to
		if end.IsZero() {
			end = time.Now()
		}
		if !s.from.Before(to.Add(settling)) || !from.Before(end.Add(within)) {
			continue
		}
		if r := slices.IndexFunc(strength, func(word string) bool { return strings.Contains(s.what, word) }); r < rank {
			best, rank = s, r
		}
	}
	return best
}

func (l *ledger) judge() *verdict {
	l.mu.Lock()
	defer l.mu.Unlock()
	v := &verdict{Promised: len(l.promises), Dead: len(l.dead), Faults: map[string]int{}, causes: map[string]int{}}
	for _, s := range l.faults {
		v.Faults[s.what]++
	}
	var late []time.Duration
	for key, p := range l.promises {
		all := l.arrivals[key]
		v.Arrivals += len(all)
		var list []*arrival
		for _, a := range all {
			if a.id != p.id && a.at.Before(p.acked) {
				v.Unpromised++
			} else {
				list = append(list, a)
			}
		}
		if !p.cancelled.IsZero() {
			v.Cancelled++
		}
		answered := false
		for i, a := range list {
			if l.fault(a.at, a.done, 0) != nil {
				v.UnderWay++
			}
			if a.clock.Before(a.due) {
				v.Early = append(v.Early, fmt.Sprintf("%s attempt %d, %s", key, a.attempt, a.due.Sub(a.clock)))
			}
			if !p.cancelled.IsZero() && a.at.After(p.cancelled) {
				v.Uncalled = append(v.Uncalled, fmt.Sprintf("%s attempt %d, %s after it was cancelled", key, a.attempt, a.at.Sub(p.cancelled)))
			}
			if a.id != p.id {
				v.Wrong = append(v.Wrong, fmt.Sprintf("%s was acknowledged as %s at %s and came as %s at %s", key, p.id, p.acked.Format(stamp), a.id, a.at.Format(stamp)))
			}
			if i == 0 {
				late = append(late, a.at.Sub(a.due))
			}
			again := slices.IndexFunc(list[:i], func(b *arrival) bool { return b.ok || b.attempt >= a.attempt })
			if again >= 0 {
				v.Doubles++
				if s := l.fault(list[again].at, list[again].done, felt); s != nil {
					v.Explained++
					v.causes[s.what]++
				} else {
					v.Unexplained = append(v.Unexplained, fmt.Sprintf("%s attempt %d at %s, after attempt %d at %s", key, a.attempt, a.at.Format(stamp), list[again].attempt, list[again].at.Format(stamp)))
				}
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
	return v
}

const stamp = "15:04:05.000"

func (v *verdict) ok() bool {
	return len(v.Lost)+len(v.Early)+len(v.Uncalled)+len(v.Wrong)+len(v.Unexplained) == 0 && v.Doubles <= v.UnderWay && v.Promised > 0
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
