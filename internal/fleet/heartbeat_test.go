package fleet

import (
	"testing"
	"time"
)

// A lost description is published with the next heartbeat, and not half a minute later.
func TestLostDescriptionIsPublishedAgain(t *testing.T) {
	plays(t, 3, func(t *testing.T, n *node, ps []*player) {
		n.do(func() { n.heartbeats, n.described = map[string]LastHeartbeat{}, map[string]string{} })
		time.Sleep(1500 * time.Millisecond) // sleep: virtual
		n.do(func() {
			if len(n.described) != 3 {
				t.Errorf("%d of 3 have a description", len(n.described))
			}
		})
		nobodyGone(t, ps)
	})
}

// The clock of a machine is compared with Redis's.
func TestClockAheadIsMeasured(t *testing.T) {
	plays(t, 1, func(t *testing.T, n *node, ps []*player) {
		for _, offset := range []time.Duration{0, time.Hour, -3 * time.Second} {
			n.do(func() { n.offset = offset })
			time.Sleep(1500 * time.Millisecond) // sleep: virtual
			if got := ps[0].ClockAhead(); (got + offset).Abs() > 10*time.Millisecond {
				t.Errorf("%s ahead of a clock that is %s ahead", got, offset)
			}
		}
	})
}
