package worker

import (
	"context"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
)

// Stats are figures of a worker.
type Stats struct {
	// Running is the number of running handlers.
	Running int
	// Overrunning is the number of running handlers whose context ended more than a second ago. Each keeps its slot.
	Overrunning int
	// Overran is the number of handlers, since the start, that ran for more than a second after the end of their context.
	Overran int
}

// Stats returns the figures of this moment.
func (w *Worker) Stats() Stats {
	s := &w.overruns
	return Stats{Running: int(s.running.Load()), Overrunning: int(s.now.Load()), Overran: int(s.all.Load())}
}

const (
	// overrunAfter is how long a handler may run after the end of its context before it counts.
	overrunAfter = time.Second
	// overrunEvery is the least time between two log lines about overrunning handlers.
	overrunEvery = time.Minute
)

// overruns counts handlers that ignore the end of their context.
type overruns struct {
	running, now, all atomic.Int64
	logged            atomic.Int64 // in Unix nanoseconds; 0 = never
	log               *zap.Logger
}

// watch counts a handler with a context, until end is called.
func (o *overruns) watch(ctx context.Context, key string) (end func()) {
	o.running.Add(1)
	const runs, ended, over = 0, 1, 2
	var state atomic.Int32
	stop := context.AfterFunc(ctx, func() {
		time.AfterFunc(overrunAfter, func() {
			if state.CompareAndSwap(runs, over) {
				o.now.Add(1)
				o.all.Add(1)
				o.report(context.Cause(ctx), key)
			}
		})
	})
	return func() {
		stop()
		o.running.Add(-1)
		if !state.CompareAndSwap(runs, ended) {
			o.now.Add(-1)
		}
	}
}

// report logs that a handler overruns.
func (o *overruns) report(cause error, key string) {
	last, now := o.logged.Load(), time.Now().UnixNano()
	if last != 0 && now-last < int64(overrunEvery) || !o.logged.CompareAndSwap(last, now) {
		return
	}

	o.log.Warn("a handler ignores the end of its context and keeps its slot, its notice may be handled again",
		zap.String("key", key), zap.String("why", cause.Error()), zap.Int64("overrunning", o.now.Load()))
}
