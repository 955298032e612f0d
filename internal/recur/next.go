package recur

import "time"

// next returns the first tick after a time, or zero. It searches period by period: in each, the zone has one offset.
func (c *cron) next(after time.Time, zone *time.Location) time.Time {
	last := after.AddDate(horizon, 0, 0)
	for from := after.Add(1); from.Before(last); {
		p := periodAt(from, zone)
		if t := c.first(p, from); !t.IsZero() {
			return t
		}
		if p.end.IsZero() {
			break
		}

		from = p.end
	}

	return time.Time{}
}

// period is a time between two changes of a zone's offset.
type period struct {
	start, end     time.Time // zero = there is no change
	offset, before time.Duration
}

func periodAt(t time.Time, zone *time.Location) (p period) {
	p.start, p.end = t.In(zone).ZoneBounds()
	p.offset = offset(t, zone)
	p.before = p.offset
	if !p.start.IsZero() {
		p.before = offset(p.start.Add(-1), zone)
	}

	return p
}

func offset(t time.Time, zone *time.Location) time.Duration {
	_, seconds := t.In(zone).Zone()
	return time.Duration(seconds) * time.Second
}

// first returns the first tick of a period from a time on, or zero.
func (c *cron) first(p period, from time.Time) time.Time {
	shown := fullMinute(shows(from, p.offset))
	if c.fixed && !p.start.IsZero() {
		begin, old := fullMinute(shows(p.start, p.offset)), fullMinute(shows(p.start, p.before))
		if _, skipped := c.match(old, begin); skipped && !shown.After(begin) {
			return begin.Add(-p.offset)
		}

		if shown.Before(old) {
			shown = old // the clock has shown the times before it
		}
	}

	end := p.end
	if !end.IsZero() {
		end = shows(end, p.offset)
	}

	if t, ok := c.match(shown, end); ok {
		return t.Add(-p.offset)
	}

	return time.Time{}
}

// shows returns the wall time of a clock with an offset, written as UTC.
func shows(t time.Time, offset time.Duration) time.Time { return t.UTC().Add(offset) }

// fullMinute rounds up.
func fullMinute(t time.Time) time.Time {
	if whole := t.Truncate(time.Minute); whole.Before(t) {
		return whole.Add(time.Minute)
	}
	return t
}
