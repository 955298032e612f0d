package dispatch

import (
	"slices"
	"sync"
)

// slots counts what one route may have in hand in this process, and who has
// taken it. Its queue's mutex guards it. Free is negative while more are taken than
// there are since their number was reduced, or while more are claimed ahead.
type slots struct {
	all     int
	free    int
	swept   int // taken by sweeps
	running int // taken slots, and attempts that gave theirs back and are not settled yet
	ahead   int // claims beyond the slots: see ahead

	// Claim calls under way, by trigger.
	hintCalls, sweepCalls int
}

func newSlots(all int) slots { return slots{all: all, free: all} }

// resize changes their number. Those that are taken stay so.
func (s *slots) resize(all int) {
	s.free += all - s.all
	s.all = all
}

// room is for how many notices a claim call may ask.
func (s *slots) room() int { return s.free + s.ahead }

// begin takes the slots of a claim call.
func (s *slots) begin(t trigger, n int) {
	s.free -= n
	s.running += n
	s.swept += t.swept(n)
	*s.calls(t)++
}

// answered notes the end of a claim call; its slots stay taken.
func (s *slots) answered(t trigger) { *s.calls(t)-- }

func (s *slots) calls(t trigger) *int {
	if t == triggerSweep {
		return &s.sweepCalls
	}
	return &s.hintCalls
}

// freed is what comes free together.
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

// mayCall reports whether a claim call for n notices may begin beside those of
// its kind that are under way.
func (s *slots) mayCall(underWay, n int) bool {
	return underWay == 0 || underWay < maxCalls && n >= min(claimBatchMin, s.all/2)
}

// kept is how many free slots a sweep leaves to hints: none without events, few
// while no hint is expected, or else a quarter.
func (s *slots) kept(events, hintsExpected bool) int {
	quarter := s.all / 4
	switch {
	case !events:
		return 0
	case !hintsExpected:
		// What a first hint finds; others follow as slots come free.
		return max(s.all/16, min(quarter, 1))
	}
	return quarter
}

// forSweep is how many slots a sweep may take when it leaves some to hints. As
// many are the sweep's own likewise: hints that come without end may not hold up
// what fell due before.
func (s *slots) forSweep(kept int) int {
	return max(s.room()-kept, min(s.room(), max(kept, 1)-s.swept))
}

// total is the slots over all routes. It is safe for concurrent use.
type total struct {
	mu      sync.Mutex
	free    int
	waiting []*share
}

// share is what one route holds of the total. Its queue is woken, without a lock,
// when the route got fewer slots than it asked for and some have come free.
type share struct {
	held  int // guarded by the total's mutex
	queue waker
}

func (t *total) room() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return max(t.free, 0) // less than none while some were forced
}

// take takes up to n slots; a route that gets fewer is woken when some come
// free.
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

// force takes slots for attempts that hold none, although there may be none.
func (t *total) force(s *share, n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.free -= n
	s.held += n
}

// give returns slots and hands back who waited for some, those that hold the
// fewest first: the caller wakes them.
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
	slices.SortStableFunc(w, func(a, b *share) int { return a.held - b.held })
	return w
}
