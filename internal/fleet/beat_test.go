package fleet

import (
	"testing"
	"time"
)

// What an instance tells of itself is there again after its next sign, not half a
// minute later.
func TestWhatIsToldIsToldAgainWhenItIsLost(t *testing.T) {
	plays(t, 3, func(t *testing.T, n *node, ps []*player) {
		n.do(func() { n.signs, n.told = map[string]Sign{}, map[string]string{} })
		time.Sleep(1500 * time.Millisecond) // sleep: virtual
		n.do(func() {
			if len(n.told) != 3 {
				t.Errorf("%d of 3 tell of themselves", len(n.told))
			}
		})
		nobodyGone(t, ps)
	})
}

// The clock of a machine is compared with Redis's.
func TestClockAhead(t *testing.T) {
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
