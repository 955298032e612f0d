package dispatch

import (
	"context"
	"time"

	"notifier/internal/store"
)

// job is one attempt to be made: see attempts.attempt.
type job struct {
	attempts *attempts
	claim    *store.Claim
	now, at  time.Time // Redis's clock showed now when this process's clock showed at
	ends     time.Time // earliest end of the lease, by this process's clock
	trigger  trigger
	waiter   *waiter // of a claim of one, until its handler begins
}

// idleTime is how long a worker waits for its next attempt before it ends.
const idleTime = time.Second

// start starts an attempt at once. It prefers an idle worker, whose stack has already grown to the
// size that an attempt needs.
func (d *Dispatcher) start(j job) {
	d.wg.Add(1)
	select {
	case d.jobs <- j:
	default:
		d.workers.Go(func() { d.workOn(j) })
	}
}

func (d *Dispatcher) workOn(j job) {
	// Each worker has its own context: to wait for its end takes the context's lock.
	ctx, cancel := context.WithCancel(d.work)
	defer cancel()
	idle := time.NewTimer(idleTime)
	defer idle.Stop()
	for {
		a := j.attempts
		a.attempt(ctx, j)
		next, more := a.queue.next()
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
