package reconcile

import "time"

// clock estimates Redis's time. It counts from an instant of this process by
// the clock that never jumps: whoever sets this machine's clock, an hour back
// for example, does not make anybody sleep for an hour. One goroutine uses it.
type clock struct {
	base    time.Time     // of this process; everything is counted from here
	offset  time.Duration // Redis minus ours
	quality time.Duration // half of the round trip it was measured with
	at      time.Time
}

// learn takes a sample: Redis said now somewhere between from and to. A worse
// sample than the last is taken only when that is old, since clocks drift, or
// when it contradicts it, since clocks jump.
func (c *clock) learn(now, from, to time.Time) {
	half := to.Sub(from) / 2
	offset := now.Sub(c.own(from).Add(half))
	apart := (offset - c.offset).Abs()
	if c.at.IsZero() || half <= c.quality || to.Sub(c.at) > 5*time.Second || apart > half+c.quality {
		c.offset, c.quality, c.at = offset, half, to
	}
}

// own is t, an instant of this process, as if its clock had run on undisturbed
// since the first one.
func (c *clock) own(t time.Time) time.Time {
	if c.base.IsZero() {
		c.base = t
	}
	return c.base.Round(0).Add(t.Sub(c.base)) // Sub counts by the clock that never jumps
}

// until is how long it is until Redis's clock shows t.
func (c *clock) until(t time.Time) time.Duration { return t.Sub(c.now()) }

// now is Redis's time.
func (c *clock) now() time.Time { return c.own(time.Now()).Add(c.offset) }
