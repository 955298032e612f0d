package reconcile

import (
	"sync/atomic"
	"time"
)

// The intervals between inspections while expired notices are claimed. They grow if the claims change nothing.
const (
	leastExpiryLook = time.Millisecond
	mostExpiryLook  = 50 * time.Millisecond
)

// askExpiry is how often an idle inspection asks for notices that expire where none is known: a message about one may be lost.
const askExpiry = time.Minute

// first is what a Sweeper knows about the first entry of a sorted set that most partitions do not have. An inspection asks for it if
// there may be one.
type first struct {
	known atomic.Bool // there may be one
	asked time.Time   // when an inspection has asked last
	at    time.Time   // of the first entry, by the last inspection that asked; zero = there is none
}

// expiries is what a Sweeper knows about the notices that expire.
type expiries struct {
	first
	// seen is the last one that had expired, and wait the time until the next inspection then.
	seen time.Time
	wait time.Duration
}

// Expires reports that a notice expires at a time.
func (s *Sweeper) Expires(at time.Time) {
	s.expiring.known.Store(true)
	s.Wake(at)
}

// ask reports whether an inspection has to ask. A wake during that inspection makes the next one ask, too.
func (x *first) ask(idle bool) bool {
	if !x.known.Swap(false) && !(idle && time.Since(x.asked) >= askExpiry) {
		return false
	}

	x.asked = time.Now()
	return true
}

// learn takes the time of the first entry from an inspection that has asked, or its failure.
func (x *first) learn(at time.Time, err error) {
	if err == nil {
		x.at = at
	}

	if err != nil || !at.IsZero() {
		x.known.Store(true)
	}
}

// passed reports whether the time of the first entry has passed.
func (x *first) passed(now time.Time) bool { return !x.at.IsZero() && !x.at.After(now) }

// expire makes dispatch end the notices that have expired for the delay. It returns how long to sleep at most; ok is false if no notice
// expires.
func (s *Sweeper) expire(now time.Time, delay time.Duration) (sleep time.Duration, ok bool) {
	x := &s.expiring
	if x.at.IsZero() {
		return 0, false
	}

	at := x.at.Add(delay)
	if at.After(now) {
		return s.clock.Until(at), true
	}

	s.o.Dispatch.Expire(s.o.Partition)
	if x.wait = min(2*x.wait, mostExpiryLook); !x.at.Equal(x.seen) {
		x.seen, x.wait = x.at, leastExpiryLook
	}

	return x.wait, true
}
