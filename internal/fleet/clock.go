package fleet

import (
	"time"

	"go.uber.org/zap"
)

// ClockAhead returns how far this machine's clock is ahead of Redis's by the last heartbeats, exact to half a round trip
// and a millisecond.
func (f *Fleet) ClockAhead() time.Duration {
	if f == nil {
		return 0
	}

	return time.Now().Round(0).Sub(f.o.Clock.Now())
}

// clockStep is the smallest step of Redis's clock that is logged.
const clockStep = time.Second

// learnClock compares Redis's clock with this process's monotonic clock. now is in ms, returned by a heartbeat sent at from.
func (f *Fleet) learnClock(now int64, from time.Time) {
	step := f.o.Clock.Learn(time.UnixMilli(now), from, time.Now())
	if step.Abs() < clockStep {
		return
	}

	f.o.Logger.Warn(
		"Redis's clock was set, or another server took over, or this machine was suspended: notices may be late or delivered twice",
		zap.Duration("step", step.Round(time.Millisecond)), zap.Time("redis_time", time.UnixMilli(now).UTC()))
}
