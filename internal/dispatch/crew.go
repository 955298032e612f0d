package dispatch

import (
	"time"

	"notifier/internal/store"
)

// job is one attempt to be made: see lane.attempt.
type job struct {
	lane    *lane
	claim   *store.Claim
	now, at time.Time
	source  string
}

// stay is how long a goroutine waits for its next attempt before it ends.
const stay = time.Second

// start begins an attempt at once: on a goroutine that has just finished one, if
// there is any, whose stack has grown to what an attempt needs, or on a new one.
func (d *Dispatcher) start(j job) {
	d.wg.Add(1)
	select {
	case d.jobs <- j:
	default:
		go d.attempts(j)
	}
}

func (d *Dispatcher) attempts(j job) {
	idle := time.NewTimer(stay)
	defer idle.Stop()
	for {
		j.lane.attempt(j.claim, j.now, j.at, j.source)
		j = job{} // nothing is held while waiting
		d.wg.Done()
		idle.Reset(stay)
		select {
		case j = <-d.jobs:
		case <-idle.C:
			return
		case <-d.work.Done(): // drained
			return
		}
	}
}
