package dispatch

import (
	"time"

	"notifier/internal/notice"
)

// aheadFor is how far a route claims ahead of its slots: as many notices as its handlers, at their
// recent speed, start within this time. A claim call takes about as long.
const aheadFor = 3 * time.Millisecond

// aheadMost is how long a notice claimed ahead may wait for a handler to end. A longer wait means
// that the handlers have become slow, and another instance may have a free slot.
const aheadMost = 50 * time.Millisecond

// ahead holds claims beyond a route's slots, so that the next handler starts without waiting for a
// claim call. The lock of readyQueue guards it.
type ahead struct {
	handling int // attempts on workers
	known    bool
	mean     float64     // recent duration of a handler, in seconds
	claims   aheadClaims // they wait for a handler
	armed    bool        // the timer for expireAhead is set
}

// aheadClaims are claims that wait for a handler, by class, oldest first.
type aheadClaims struct {
	jobs   [notice.Classes][]job
	n      int
	starts int // see notice.Next
}

func (r *aheadClaims) add(j job) {
	c := j.claim.Class()
	r.jobs[c] = append(r.jobs[c], j)
	r.n++
}

// next removes and returns the claim whose attempt starts next.
func (r *aheadClaims) next() (j job, ok bool) {
	if r.n == 0 {
		return job{}, false
	}

	c := notice.Next(r.starts, func(c notice.Class) bool { return len(r.jobs[c]) > 0 })
	r.starts++
	return r.shift(c), true
}

// shift removes and returns the oldest claim of a class.
func (r *aheadClaims) shift(c notice.Class) (j job) {
	j, r.jobs[c][0] = r.jobs[c][0], job{}
	if r.jobs[c] = r.jobs[c][1:]; len(r.jobs[c]) == 0 {
		r.jobs[c] = nil
	}

	r.n--
	return j
}

// late removes and returns the claims that came until a time.
func (r *aheadClaims) late(until time.Time) (list []job) {
	for c := range r.jobs {
		for len(r.jobs[c]) > 0 && !r.jobs[c][0].at.After(until) {
			list = append(list, r.shift(notice.Class(c)))
		}
	}
	return list
}

// drop removes and returns all claims.
func (r *aheadClaims) drop() (list []job) {
	for c := range r.jobs {
		list = append(list, r.jobs[c]...)
	}

	*r = aheadClaims{}
	return list
}

// oldest returns when the oldest claim came.
func (r *aheadClaims) oldest() (at time.Time) {
	for _, list := range r.jobs {
		if len(list) > 0 && (at.IsZero() || list[0].at.Before(at)) {
			at = list[0].at
		}
	}
	return at
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
func (q *readyQueue) pace(d time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ahead.took(d)
	q.plan.slots.ahead = q.ahead.size(q.plan.slots.all)
}

// next returns the next waiting attempt for a worker. If there is none, the worker no longer counts
// as handling.
func (q *readyQueue) next() (j job, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	a := &q.ahead
	if a.handling <= max(q.plan.slots.all, 1) { // the number of slots may have been reduced
		j, ok = a.claims.next()
	}

	if !ok {
		a.handling--
	}

	return j, ok
}

// await queues a claim that was made ahead until a handler ends, and reports whether it did. A
// claim that runs no handler never waits.
func (q *readyQueue) await(j job) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	a := &q.ahead
	if j.claim.AwaitsReport || q.closed || a.handling < max(q.plan.slots.all, 1) {
		a.handling++
		return false
	}

	a.claims.add(j)
	q.d.wg.Add(1)
	if !a.armed {
		a.armed = true
		time.AfterFunc(aheadMost, q.expireAhead)
	}

	return true
}

// expireAhead releases the claims that waited for aheadMost or longer. It stops claiming ahead
// until the next handler has ended.
func (q *readyQueue) expireAhead() {
	q.mu.Lock()
	a := &q.ahead
	back := a.claims.late(time.Now().Add(-aheadMost))
	if len(back) > 0 {
		a.known, q.plan.slots.ahead = false, 0
	}

	if a.armed = a.claims.n > 0; a.armed {
		time.AfterFunc(aheadMost-time.Since(a.claims.oldest()), q.expireAhead)
	}

	q.mu.Unlock()
	q.attempts.releaseAll(back, notice.ReasonLease)
}
