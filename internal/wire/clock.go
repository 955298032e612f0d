package wire

import (
	"sync"
	"time"
)

// Clock estimates Redis's clock: this process's monotonic clock plus a measured offset. Setting this machine's wall clock
// does not change the estimate. Before the first measurement it shows this machine's clock. It is safe for concurrent use.
type Clock struct {
	mu      sync.Mutex
	base    time.Time     // of this process; all times are counted from here
	offset  time.Duration // Redis's clock minus ours
	quality time.Duration // half of the round trip of the measurement
	at      time.Time
}

// Learn updates the offset from one measurement: Redis returned the time now, at some moment between from and to. step is
// how far Redis's clock was set since the last measurement; 0 = it was not set, as far as the two round trips tell.
func (c *Clock) Learn(now, from, to time.Time) (step time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()

	// The shorter the interval, the more precise the measurement. So an earlier measurement with a shorter interval is
	// kept, with two exceptions. One that is older than five seconds is replaced, because clocks drift. One that
	// contradicts the new measurement is replaced, because a clock has been set.
	half := to.Sub(from) / 2
	offset := now.Sub(c.own(from).Add(half))
	moved := offset - c.offset
	set := !c.at.IsZero() && moved.Abs() > half+c.quality
	if c.at.IsZero() || set || half <= c.quality || to.Sub(c.at) > 5*time.Second {
		c.offset, c.quality, c.at = offset, half, to
	}

	if set {
		step = moved
	}

	return step
}

// own returns an instant t of this process as if its clock had never been set since the first call.
func (c *Clock) own(t time.Time) time.Time {
	if c.base.IsZero() {
		c.base = t
	}

	return c.base.Round(0).Add(t.Sub(c.base)) // Sub uses the monotonic clock
}

// Until returns how long it takes until Redis's clock shows t.
func (c *Clock) Until(t time.Time) time.Duration { return t.Sub(c.Now()) }

// Now returns Redis's time.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.own(time.Now()).Add(c.offset).UTC()
}
