package workertest

import (
	"fmt"
	"sync/atomic"
	"time"
)

// stuckAfter is how long Advance may make no step, by the real clock.
const stuckAfter = 10 * time.Second

// activity watches Advance from outside the bubble, where the clock is real.
type activity struct {
	most time.Duration
	fail func(text string)
	stop chan struct{}

	advancing atomic.Bool
	steps     atomic.Int64
}

func (a *activity) begin() { a.advancing.Store(true) }
func (a *activity) end()   { a.advancing.Store(false) }
func (a *activity) moved() { a.steps.Add(1) }

// watch calls fail if Advance makes no step. Then a goroutine of the bubble is not blocked in it, so nothing in the bubble
// can report that: fail ends the test binary.
func (a *activity) watch() {
	check := time.NewTicker(a.most / 10)
	defer check.Stop()
	last, since := a.steps.Load(), time.Now()
	for {
		select {
		case <-a.stop:
			return
		case <-check.C:
		}

		if now := a.steps.Load(); now != last || !a.advancing.Load() {
			last, since = now, time.Now()
		} else if time.Since(since) > a.most {
			a.fail(fmt.Sprintf("Advance has made no step for %s: a goroutine of the test runs on, or waits for a socket, a file or "+
				"something else outside the bubble, such as a TCP server or a database; replace it by a fake", a.most))
			return
		}
	}
}
