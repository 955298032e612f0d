package testkit

import (
	"slices"
	"testing"
	"time"
)

// Pairs measures two variants in alternating pairs and logs, for each named part, the ratios of the second to the first: median, least and
// most. measure returns how long each part took.
func Pairs(t testing.TB, n int, parts []string, measure func(variant, round int) []time.Duration) {
	t.Helper()
	ratios := make([][]float64, len(parts))
	for round := range n {
		var of [2][]time.Duration
		for turn := range 2 {
			variant := (turn + round) % 2
			of[variant] = measure(variant, round)
		}

		t.Logf("first %s, second %s", of[0], of[1])
		for i := range parts {
			ratios[i] = append(ratios[i], of[1][i].Seconds()/of[0][i].Seconds())
		}
	}

	for i, part := range parts {
		slices.Sort(ratios[i])
		t.Logf("%s: %.3f [%.3f, %.3f] (median, least, most; second : first)", part, ratios[i][n/2], ratios[i][0], ratios[i][n-1])
	}
}
