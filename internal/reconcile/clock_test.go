package reconcile

import (
	"testing"
	"time"
)

func TestClockFollowsRedis(t *testing.T) {
	var c clock
	ahead := 90 * time.Minute
	for _, offset := range []time.Duration{ahead, -ahead, 0} { // Redis's clock is set twice
		from := time.Now()
		c.learn(from.Add(offset).Round(0), from, from)
		if got := c.now().Sub(time.Now().Add(offset)).Abs(); got > time.Minute {
			t.Errorf("offset %s: off by %s", offset, got)
		}
		if got := c.until(time.Now().Add(offset + time.Hour)); got < 59*time.Minute || got > time.Hour {
			t.Errorf("offset %s: an hour ahead is %s away", offset, got)
		}
	}
	// Its results contain no monotonic reading of this process, so that the difference to a due
	// time is one of Redis's times.
	if a := c.own(time.Now()); a != a.Round(0) {
		t.Errorf("%v", a)
	}
}
