//go:build !quick

package callback

import (
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
)

// A receiver that fails in several ways at once, each now and then, gets nearly as many notices as without
// failures.
func TestMixedFailuresLeaveARouteItsRate(t *testing.T) {
	for _, c := range []struct {
		name               string
		busy, broken, hang float64
	}{
		{"429 alone", 0.1, 0, 0},
		{"500 alone", 0, 0.1, 0},
		{"hanging alone", 0, 0, 0.1 / 3},
		{"all three", 0.1 / 3, 0.1 / 3, 0.1 / 3},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "_"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &mixture{rnd: rand.New(rand.NewPCG(1, 2)), busy: c.busy, broken: c.broken, hang: c.hang}
				acknowledged, failed, postponed := m.routeOf(t)
				t.Logf("%.0f acknowledged, %.0f failed, %.0f postponed a second", acknowledged, failed, postponed)
				if acknowledged < 270 || postponed > 100 {
					t.Errorf("%.0f acknowledged and %.0f postponed a second", acknowledged, postponed)
				}
			})
		})
	}
}
