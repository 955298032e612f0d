package reconcile

import "time"

// clock estimates Redis's time. One goroutine uses it.
type clock struct {
	offset  time.Duration // Redis minus ours
	quality time.Duration // half of the round trip it was measured with
	at      time.Time
}

// learn takes a sample: Redis said now somewhere between from and to. A worse
// sample than the last is taken only when that is old, since clocks drift, or
// when it contradicts it, since clocks jump.
func (c *clock) learn(now, from, to time.Time) {
	half := to.Sub(from) / 2
	offset := now.Sub(from.Add(half))
	apart := (offset - c.offset).Abs()
	if c.at.IsZero() || half <= c.quality || to.Sub(c.at) > 5*time.Second || apart > half+c.quality {
		c.offset, c.quality, c.at = offset, half, to
	}
}

// until is how long it is until Redis's clock shows t.
func (c *clock) until(t time.Time) time.Duration { return t.Sub(time.Now().Add(c.offset)) }

// now is Redis's time.
func (c *clock) now() time.Time { return time.Now().Add(c.offset) }
