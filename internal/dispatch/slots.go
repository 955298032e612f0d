package dispatch

import (
	"slices"
	"sync"
)

// slots counts a route's slots in this process. Each running attempt takes one. free is negative while too many are
// taken: after the limit was reduced, or while notices are claimed ahead.
type slots struct {
	all     int
	free    int
	swept   int // taken by sweeps
	running int // taken slots, and attempts without a slot that are not settled yet
	ahead   int // claims beyond the slots: see ahead
	looking int // reserved by running sweeps, which return most of them

	// Running claim calls, by trigger.
	hintCalls, sweepCalls int
}

func newSlots(all int) slots { return slots{all: all, free: all} }

// resize changes the number of slots. Taken slots stay taken.
func (s *slots) resize(all int) {
	s.free += all - s.all
	s.all = all
}

// room returns for how many notices a claim call may ask.
func (s *slots) room() int { return s.free + s.ahead }

// begin takes the slots of a claim call.
func (s *slots) begin(t trigger, n int) {
	s.free -= n
	s.running += n
	s.swept += t.swept(n)
	s.looking += t.swept(n)
	*s.calls(t)++
}

// answered records the end of a claim call for n notices; its slots stay taken.
func (s *slots) answered(t trigger, n int) {
	s.looking -= t.swept(n)
	*s.calls(t)--
}

func (s *slots) calls(t trigger) *int {
	if t == triggerSweep {
		return &s.sweepCalls
	}
	return &s.hintCalls
}

// freed is a set of slots freed together.
type freed struct {
	slots   int
	swept   int // of them, taken by sweeps
	running int // attempts that ended
}

func (s *slots) release(f freed) {
	s.free += f.slots
	s.swept -= f.swept
	s.running -= f.running
}

// mayCall reports whether a claim call for n notices may start, given the number of running calls
// of its kind.
func (s *slots) mayCall(running, n int) bool {
	return running == 0 || running < maxCalls && n >= min(claimBatchMin, s.all/2)
}

// kept returns how many free slots a sweep leaves to hints: none without events, few while no hint is expected, otherwise
// a quarter. oneHost means that the route calls a single host: a new notice waits for the host that the backlog waits for.
func (s *slots) kept(events, hintsExpected, oneHost bool) int {
	quarter := s.all / 4
	switch {
	case !events:
		return 0
	case !hintsExpected && oneHost:
		return min(s.all/32, 1)
	case !hintsExpected:
		// Slots for the first hint; more follow as slots become free.
		return max(s.all/16, min(quarter, 1))
	}

	return quarter
}

// forSweep returns how many slots a sweep may take. It leaves kept slots to hints, but as many are
// reserved for the sweep: an endless stream of hints must not delay overdue notices.
func (s *slots) forSweep(kept int) int {
	return max(s.room()-kept, min(s.room(), max(kept, 1)-s.swept))
}

// total counts the slots of all routes. It is safe for concurrent use.
type total struct {
	mu      sync.Mutex
	free    int
	waiting []*share
}

// share is one route's part of the total. If the route got fewer slots than it asked for, its queue
// is woken, without a lock, when slots become free.
type share struct {
	held   int // guarded by the total's mutex
	weight int
	queue  waker
}

func (t *total) room() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return max(t.free, 0) // negative while some were forced
}

// take takes up to n slots. A route that gets fewer is woken when slots become free.
func (t *total) take(s *share, n int) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	got := max(min(n, t.free), 0)
	t.free -= got
	s.held += got
	if got < n && !slices.Contains(t.waiting, s) {
		t.waiting = append(t.waiting, s)
	}

	return got
}

// force takes slots for claims that need one even if none is free.
func (t *total) force(s *share, n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.free -= n
	s.held += n
}

// give returns slots, and returns the shares that wait for some, first those that hold the fewest slots for their weight. The caller
// wakes them.
func (t *total) give(s *share, n int) []*share {
	if n == 0 {
		return nil
	}

	t.mu.Lock()
	defer t.mu.Unlock()
	t.free += n
	s.held -= n
	w := t.waiting
	t.waiting = nil
	slices.SortStableFunc(w, func(a, b *share) int { return a.held*b.weight - b.held*a.weight })
	return w
}
