package notice

import "time"

// Expiry says when a notice expires: At, or After its due time. The zero value says nothing.
type Expiry struct {
	At    time.Time
	After time.Duration
}

// Expiry returns when the content expires.
func (c *Content) Expiry() Expiry {
	if c.ExpiresAfter > 0 {
		return Expiry{After: c.ExpiresAfter}
	}
	return Expiry{At: c.Expires}
}

func (c *Content) checkExpiry() error {
	if c.ExpiresAfter != 0 && (c.ExpiresAfter < time.Millisecond || c.ExpiresAfter > MaxHorizon) {
		return invalid("expires %s is not from 1ms to %s", c.ExpiresAfter, Short(MaxHorizon))
	}
	if !c.Expires.IsZero() && (c.Expires.Before(time.Unix(1, 0)) || c.Expires.After(time.Now().Add(2*MaxHorizon))) {
		return invalid("expires %s is not a time from now to %s ahead", Stamp(c.Expires), Short(2*MaxHorizon))
	}

	return nil
}

// NoExpiry is the FirstExpires of a notice that got its first expiry when it was sent again.
const NoExpiry = -1

// WithoutExpiry returns the content without an expiry, for a notice that is sent again on purpose. A repeated schedule call is still
// compared with the expiry that it had.
func (c Content) WithoutExpiry() Content {
	first := c.fixedExpiry()
	if c.Expires, c.ExpiresAfter, c.FirstExpires = (time.Time{}), 0, 0; !first.IsZero() {
		c.FirstExpires = first.UnixMilli()
	}

	return c
}

// fixedExpiry returns the Expires of the schedule call if the producer gave a time.
func (c *Content) fixedExpiry() time.Time {
	switch {
	case c.ExpiresAfter != 0 || c.FirstExpires == NoExpiry:
		return time.Time{}
	case c.FirstExpires != 0:
		return timeOf(c.FirstExpires)
	}
	return c.Expires
}

// Expired reports whether no attempt may begin at a time.
func (n *Notice) Expired(at time.Time) bool { return !n.Expires.IsZero() && !at.Before(n.Expires) }

// timeOf returns a time in a record; 0 = there is none.
func timeOf(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}
