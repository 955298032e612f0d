package wire

import (
	"testing"
	"time"
)

func TestClockFollowsRedis(t *testing.T) {
	var c Clock
	ahead := 90 * time.Minute
	for _, offset := range []time.Duration{ahead, -ahead, 0} { // Redis's clock is set twice
		from := time.Now()
		c.Learn(from.Add(offset).Round(0), from, from)
		if got := c.Now().Sub(time.Now().Add(offset)).Abs(); got > time.Minute {
			t.Errorf("offset %s: off by %s", offset, got)
		}
		if got := c.Until(time.Now().Add(offset + time.Hour)); got < 59*time.Minute || got > time.Hour {
			t.Errorf("offset %s: an hour ahead is %s away", offset, got)
		}
	}
	// Its results contain no monotonic reading of this process, so that the difference to a due
	// time is one of Redis's times.
	if a := c.own(time.Now()); a != a.Round(0) {
		t.Errorf("%v", a)
	}
}

func TestClockPrefersBetterMeasurements(t *testing.T) {
	base := time.Unix(1763740800, 0)
	at := func(ms float64) time.Time { return base.Add(time.Duration(ms * float64(time.Millisecond))) }
	for _, c := range []*struct {
		name           string
		have           Clock
		now, from, to  float64 // ms
		offset, within float64 // ms
	}{
		{"the first is taken, however bad", Clock{}, 1100, 0, 200, 1000, 100},
		{"a better one is taken", Clock{offset: 5 * time.Millisecond, quality: 10 * time.Millisecond, at: base}, 11, 9, 11, 1, 1},
		{"an equal one is taken", Clock{offset: 2 * time.Millisecond, quality: time.Millisecond, at: base}, 11, 9, 11, 1, 1},
		{"a worse one is not", Clock{offset: 2 * time.Millisecond, quality: time.Millisecond, at: base}, 20, 9, 21, 2, 1},
		{"a worse one after a long time is", Clock{offset: 2 * time.Millisecond, quality: time.Millisecond, at: base}, 6020, 6009, 6021, 5, 6},
		{"a worse one that contradicts is", Clock{offset: 2 * time.Millisecond, quality: time.Millisecond, at: base}, 1020, 9, 21, 1005, 6},
		{"a clock that went back", Clock{offset: 2 * time.Millisecond, quality: time.Millisecond, at: base}, -1000, 9, 11, -1010, 1},
	} {
		k := &c.have
		k.Learn(at(c.now), at(c.from), at(c.to))
		if k.offset != at(c.offset).Sub(base) || k.quality != at(c.within).Sub(base) {
			t.Errorf("%s: offset %s, good to %s; want %v ms, %v ms", c.name, k.offset, k.quality, c.offset, c.within)
		}
	}
}

// A step is the amount by which Redis's clock was set. The two round trips bound what counts as one.
func TestClockReportsStepOfRedisClock(t *testing.T) {
	base := time.Unix(1763740800, 0)
	var c Clock
	for i, m := range []struct{ offset, trip, step time.Duration }{
		{time.Hour, time.Millisecond, 0}, // the first measurement
		{time.Hour + time.Millisecond/2, time.Millisecond, 0},
		{time.Hour - 120*time.Second, time.Millisecond, -120 * time.Second},
		{time.Hour - 120*time.Second, 10 * time.Second, 0},
		{time.Hour - 118*time.Second, 10 * time.Second, 0}, // within the round trip
		{time.Hour, time.Millisecond, 118 * time.Second},
	} {
		from := base.Add(time.Duration(i) * time.Second)
		to := from.Add(m.trip)
		if got := c.Learn(from.Add(m.trip/2+m.offset), from, to); (got - m.step).Abs() > time.Millisecond {
			t.Errorf("measurement %d: step %s, want %s", i, got, m.step)
		}
	}
}
