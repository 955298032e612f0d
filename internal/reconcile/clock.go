package reconcile

import "time"

// clock estimates the time of Redis's clock. Between measurements it uses the monotonic clock of
// this process, so that a sweeper does not sleep an hour too long if this machine's clock is set
// back by an hour. Only one goroutine may use a clock.
type clock struct {
	base    time.Time     // of this process; all times are counted from here
	offset  time.Duration // Redis's clock minus ours
	quality time.Duration // half of the round trip of the measurement
	at      time.Time
}

// learn takes a measurement: Redis returned the time now at some moment between from and to. The
// shorter this interval, the more precise the measurement.
//
// A less precise measurement replaces a more precise one in two cases. The earlier one is more than
// five seconds old, because clocks drift. Or the two contradict each other, because a clock was
// set.
func (c *clock) learn(now, from, to time.Time) {
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
