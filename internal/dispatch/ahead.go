package dispatch

import (
	"time"

	"notifier/internal/notice"
)

// aheadFor is how far a route claims ahead: what its handlers, as quick as they were
// lately, begin within it. A claim call takes about as long.
const aheadFor = 3 * time.Millisecond

// readyMost is how long a claim may wait for a handler to end. It was to be a few
// milliseconds; where it is more, the handlers have become slow, and another instance
// may have a slot.
const readyMost = 50 * time.Millisecond

// ahead keeps claims beyond a route's slots, so that when a handler ends the next
// begins at once, and not after a claim call. Its queue's mutex guards it.
type ahead struct {
	handling int // attempts on workers
	known    bool
	mean     float64 // seconds that handlers took lately
	ready    []job   // those that wait, the oldest first
	armed    bool    // the timer is set that looks for those that wait for too long
}

// took notes what a handler took.
func (a *ahead) took(d time.Duration) {
	if !a.known {
		a.known, a.mean = true, d.Seconds()
		return
	}
	a.mean += (d.Seconds() - a.mean) / 16
}

// size is how many may be claimed beyond the slots: as many at most. With half as many,
// callbacks to a receiver that answers at once took a seventh more calls of Redis, and
// were some 8 % fewer (BenchmarkCallbacks, nine runs of each, alternating).
func (a *ahead) size(slots int) int {
	if !a.known || slots <= 0 {
		return 0
	}
	begin := float64(slots) * aheadFor.Seconds()
	if begin >= float64(slots)*a.mean {
		return slots
	}
	return int(begin / a.mean)
}

// pace notes what a handler took, and claims ahead accordingly from then on.
func (q *routeQueue) pace(d time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ahead.took(d)
	q.slots.ahead = q.ahead.size(q.slots.all)
}

// next is the attempt that a worker goes on with, or none: then it has one less under way.
func (q *routeQueue) next() (j job, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	a := &q.ahead
	if len(a.ready) == 0 || a.handling > max(q.slots.all, 1) { // there may be fewer slots now
		a.handling--
		return job{}, false
	}
	j, a.ready[0] = a.ready[0], job{}
	if a.ready = a.ready[1:]; len(a.ready) == 0 {
		a.ready = nil
	}
	return j, true
}

// await lets a claim wait for a handler to end, and reports whether it has to: all slots
// have one, and the claim was made ahead. What has no handler to run does not wait.
func (q *routeQueue) await(j job) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	a := &q.ahead
	if j.claim.AwaitsReport || q.closed || a.handling < max(q.slots.all, 1) {
		a.handling++
		return false
	}
	a.ready = append(a.ready, j)
	q.d.wg.Add(1)
	if !a.armed {
		a.armed = true
		time.AfterFunc(readyMost, q.lookAtReady)
	}
	return true
}

// lookAtReady gives back what has waited for too long, and claims no more ahead until a
// handler has ended.
func (q *routeQueue) lookAtReady() {
	q.mu.Lock()
	a := &q.ahead
	late := 0
	for late < len(a.ready) && time.Since(a.ready[late].at) >= readyMost {
		late++
	}
	back := a.ready[:late]
	a.ready = a.ready[late:]
	if late > 0 {
		a.known, q.slots.ahead = false, 0
	}
	if a.armed = len(a.ready) > 0; a.armed {
		time.AfterFunc(readyMost-time.Since(a.ready[0].at), q.lookAtReady)
	}
	q.mu.Unlock()
	q.giveAllBack(back, notice.ReasonLease)
}

// giveAllBack returns claims that waited.
func (q *routeQueue) giveAllBack(list []job, why notice.Reason) {
	for _, j := range list {
		q.giveBack(j, why, true)
		q.d.wg.Done()
	}
}
