package fleet

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// An instance is inactive for a second, also if others or the same one are added in between.
func TestInactiveInstanceIsActiveAfterASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a inactivePeers
		if a.has("x") || a.has("") || (*inactivePeers)(nil).has("x") {
			t.Error("an instance is absent from the beginning")
		}
		if !a.add("x") || !a.has("x") || a.has("y") {
			t.Error("x was not noted")
		}
		time.Sleep(time.Second - time.Millisecond)
		if a.add("x", "") || !a.add("x", "y") || !a.has("x") || a.has("") {
			t.Error("x is not new, y is")
		}
		time.Sleep(time.Millisecond)
		if a.has("x") || !a.has("y") || !a.add("x") {
			t.Error("x was noted a second ago, y just now")
		}
	})
}

// Inactive instances do not count in the rank.
func TestRankSkipsInactiveInstances(t *testing.T) {
	const n = 5
	views := viewsOf(n, 0, 0)
	for shard := range 20 {
		for _, v := range views {
			before := v.Before("r", shard)
			rank := v.RankForPartition("r", shard, nil)
			if len(before) != rank || slices.Contains(before, v.ID()) {
				t.Fatalf("rank %d, and before it come %q", rank, before)
			}
			var a inactivePeers
			for i, id := range before {
				a.add(id)
				if got := v.RankForPartition("r", shard, &a); got != rank-i-1 {
					t.Errorf("rank %d of %d without %d", got, rank, i+1)
				}
			}
		}
	}
}
