package dispatch

import (
	"context"
	"time"

	"notifier/internal/store"
)

// job is one attempt to be made: see routeQueue.attempt.
type job struct {
	queue   *routeQueue
	claim   *store.Claim
	now, at time.Time // Redis said now when this process's clock said at
	ends    time.Time // not before then does the lease end, by that clock
	trigger trigger
	host    string // of a waiter, until its handler begins
}

// idleTime is how long a worker waits for its next attempt before it ends.
const idleTime = time.Second

// start begins an attempt at once: on a worker that has just finished one, if
// there is any, whose stack has grown to what an attempt needs, or on a new one.
// The workers are waited for when the dispatcher has drained.
func (d *Dispatcher) start(j job) {
	d.wg.Add(1)
	select {
	case d.jobs <- j:
	default:
		d.workers.Go(func() { d.workOn(j) })
	}
}

func (d *Dispatcher) workOn(j job) {
	// Handlers wait for the end of a context of the worker's own: to wait for it, and to
	// wait no more, takes its lock.
	ctx, cancel := context.WithCancel(d.work)
	defer cancel()
	idle := time.NewTimer(idleTime)
	defer idle.Stop()
	for {
		q := j.queue
		q.attempt(ctx, j)
		next, more := q.next()
		d.wg.Done()
		if j = next; more {
			continue
		}
		idle.Reset(idleTime)
		select {
		case j = <-d.jobs:
		case <-idle.C:
			return
		case <-d.work.Done(): // drained
			return
		}
	}
}
