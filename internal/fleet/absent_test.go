package fleet

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// Who is absent is so for a second, also where others are noted or noted again meanwhile.
func TestAbsentForASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a absences
		if a.has("x") || a.has("") || (*absences)(nil).has("x") {
			t.Error("somebody is absent from the beginning")
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

// Without those that are absent the next one is first.
func TestAbsentInstancesDoNotComeFirst(t *testing.T) {
	const n = 5
	views := viewsOf(n, 0, 0)
	for shard := range 20 {
		for _, v := range views {
			before := v.Before("r", shard)
			rank := v.RankForWork("r", shard, nil)
			if len(before) != rank || slices.Contains(before, v.ID()) {
				t.Fatalf("rank %d, and before it come %q", rank, before)
			}
			var a absences
			for i, id := range before {
				a.add(id)
				if got := v.RankForWork("r", shard, &a); got != rank-i-1 {
					t.Errorf("rank %d of %d without %d", got, rank, i+1)
				}
			}
		}
	}
}
