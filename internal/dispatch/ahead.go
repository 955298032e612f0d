package dispatch

import (
	"time"

	"notifier/internal/notice"
)

// aheadFor is how far a route claims ahead of its slots: as many notices as its handlers, at their
// recent speed, start within this time. A claim call takes about as long.
const aheadFor = 3 * time.Millisecond

// readyMost is how long a notice claimed ahead may wait for a handler to end. A longer wait means
// that the handlers have become slow, and another instance may have a free slot.
const readyMost = 50 * time.Millisecond

// ahead holds claims beyond a route's slots, so that the next handler starts without waiting for a
// claim call. The queue's mutex guards it.
type ahead struct {
	handling int // attempts on workers
	known    bool
	mean     float64 // recent duration of a handler, in seconds
	ready    []job   // waiting claims, oldest first
	armed    bool    // the timer for expireReady is set
}

// took records the duration of a handler.
func (a *ahead) took(d time.Duration) {
	if !a.known {
		a.known, a.mean = true, d.Seconds()
		return
	}
	a.mean += (d.Seconds() - a.mean) / 16
}

// size returns how many notices the route may claim in addition to its free slots: as many as its handlers, at their
// recent speed, start within aheadFor, but at most slots.
func (a *ahead) size(slots int) int {
	if !a.known || slots <= 0 {
		return 0
	}

	// With half of this number, throughput fell by 8 % and Redis got a seventh more calls per callback
	// (BenchmarkCallbacks, nine alternating runs).
	begin := float64(slots) * aheadFor.Seconds()
	if begin >= float64(slots)*a.mean {
		return slots
	}

	return int(begin / a.mean)
}

// pace records the duration of a handler and updates how many claims are made ahead.
func (q *routeQueue) pace(d time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ahead.took(d)
	q.slots.ahead = q.ahead.size(q.slots.all)
}

// next returns the next waiting attempt for a worker. If there is none, the worker no longer counts
// as handling.
func (q *routeQueue) next() (j job, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	a := &q.ahead
	if len(a.ready) == 0 || a.handling > max(q.slots.all, 1) { // the number of slots may have been reduced
		a.handling--
		return job{}, false
	}

	j, a.ready[0] = a.ready[0], job{}
	if a.ready = a.ready[1:]; len(a.ready) == 0 {
		a.ready = nil
	}

	return j, true
}

// await queues a claim that was made ahead until a handler ends, and reports whether it did. A
// claim that runs no handler never waits.
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
		time.AfterFunc(readyMost, q.expireReady)
	}

	return true
}

// expireReady releases the claims that waited for readyMost or longer. It stops claiming ahead
// until the next handler has ended.
func (q *routeQueue) expireReady() {
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
		time.AfterFunc(readyMost-time.Since(a.ready[0].at), q.expireReady)
	}

	q.mu.Unlock()
	q.releaseAll(back, notice.ReasonLease)
}

// releaseAll gives up claims whose attempts have not started.
func (q *routeQueue) releaseAll(list []job, why notice.Reason) {
	for _, j := range list {
		q.release(j, why, true)
		q.d.wg.Done()
	}
}
