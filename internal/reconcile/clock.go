package reconcile

import "time"

// clock estimates the present time of Redis's clock: this process's monotonic clock plus a measured offset. Setting
// this machine's wall clock does not change the estimate. A clock is not safe for concurrent use.
type clock struct {
	base    time.Time     // of this process; all times are counted from here
	offset  time.Duration // Redis's clock minus ours
	quality time.Duration // half of the round trip of the measurement
	at      time.Time
}

// learn updates the offset from one measurement: Redis returned the time now, at some moment between from and to.
func (c *clock) learn(now, from, to time.Time) {
	// The shorter the interval, the more precise the measurement. So an earlier measurement with a shorter interval is
	// kept, with two exceptions. One that is older than five seconds is replaced, because clocks drift. One that
	// contradicts the new measurement is replaced, because a clock has been set.
	half := to.Sub(from) / 2
	offset := now.Sub(c.own(from).Add(half))
	difference := (offset - c.offset).Abs()
	if c.at.IsZero() || half <= c.quality || to.Sub(c.at) > 5*time.Second || difference > half+c.quality {
		c.offset, c.quality, c.at = offset, half, to
	}
}

// own returns an instant t of this process as if its clock had never been set since the first call.
func (c *clock) own(t time.Time) time.Time {
	if c.base.IsZero() {
		c.base = t
	}

	return c.base.Round(0).Add(t.Sub(c.base)) // Sub uses the monotonic clock
}

// until returns how long it takes until Redis's clock shows t.
func (c *clock) until(t time.Time) time.Duration { return t.Sub(c.now()) }

// now returns Redis's time.
func (c *clock) now() time.Time { return c.own(time.Now()).Add(c.offset) }
