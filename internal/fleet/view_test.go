package fleet

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"
)

// viewsOf returns the views of n instances, of which the last l are leaving, as they see each
// other. Expired events do not arrive at the first deaf ones.
func viewsOf(n, leaving, withoutEvents int) []*View {
	names := make([]string, n)
	for i := range names {
		names[i] = newID()
	}
	list := make([]*View, n)
	for i, id := range names {
		v := &View{id: id, self: hashOf(id), known: true, retired: i >= n-leaving, selfWithoutEvents: i < withoutEvents, ids: map[uint64]string{}}
		for k, other := range names {
			if k == i {
				continue
			}
			v.ids[hashOf(other)] = other
			v.holders = append(v.holders, hashOf(other))
			if k < n-leaving {
				v.others = append(v.others, hashOf(other))
				if k < withoutEvents {
					v.withoutEvents = append(v.withoutEvents, hashOf(other))
				}
			}
		}
		v.choose()
		list[i] = v
	}
	return list
}

func TestViewPrefersOneInstance(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 20).Draw(t, "instances")
		views := viewsOf(n, rapid.IntRange(0, n-1).Draw(t, "leaving"), rapid.IntRange(0, n).Draw(t, "deaf"))
		key, shard := rapid.String().Draw(t, "key"), rapid.IntRange(0, 100).Draw(t, "shard")
		keys, works := 0, 0
		for _, v := range views {
			if v.Prefers(key) {
				keys++
			}
			if v.PrefersPartition(key, shard) {
				works++
			}
		}
		if keys != 1 || works != 1 {
			t.Fatalf("%d are preferred for a key and %d for work", keys, works)
		}
	})
}

// An instance without expired events is preferred only if no other instance that takes new work
// receives them. It keeps its part of limits.
func TestInstanceWithoutEventsIsNotPreferred(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 20).Draw(t, "instances")
		leaving := rapid.IntRange(0, n-1).Draw(t, "leaving")
		withoutEvents := rapid.IntRange(0, n).Draw(t, "deaf")
		key, shard := rapid.String().Draw(t, "key"), rapid.IntRange(0, 100).Draw(t, "shard")
		slots := 0
		for i, v := range viewsOf(n, leaving, withoutEvents) {
			slots += v.Share(key, n)
			if withoutEvents < n-leaving && i < withoutEvents && (v.Prefers(key) || v.PrefersPartition(key, shard)) {
				t.Fatalf("instance %d is preferred, and events arrive at %d others", i, n-leaving-withoutEvents)
			}
		}
		if slots != n {
			t.Fatalf("%d of %d slots", slots, n)
		}
	})
}

func TestSharesSumUpToLimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 30).Draw(t, "instances")
		leaving := rapid.IntRange(0, n-1).Draw(t, "leaving")
		views := viewsOf(n, leaving, 0)
		name, limit := rapid.String().Draw(t, "name"), rapid.IntRange(1, 100).Draw(t, "limit")
		perSecond := rapid.Float64Range(0.01, 1000).Draw(t, "rate")
		sum, least, most, rate, some := 0, limit, 0, 0.0, 0
		for _, v := range views {
			s := v.Share(name, limit)
			sum, least, most = sum+s, min(least, s), max(most, s)
			r := v.Rate(name, perSecond)
			rate += r
			if r > 0 {
				some++
			}
			if r > 0 && r < 1 && perSecond >= 1 {
				t.Fatalf("a part of %g/s of %g/s", r, perSecond)
			}
		}
		if sum != limit || most-least > 1 {
			t.Fatalf("parts of %d sum up to %d, from %d to %d", limit, sum, least, most)
		}
		if math.Abs(rate-perSecond) > 1e-9*perSecond || some == 0 {
			t.Fatalf("parts of %g/s sum up to %g, of %d", perSecond, rate, some)
		}
	})
}

// The preferred instance is chosen among the holders of a part of the limit.
func TestViewSharersPrefersOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 20).Draw(t, "instances")
		views := viewsOf(n, rapid.IntRange(0, n-1).Draw(t, "leaving"), rapid.IntRange(0, n).Draw(t, "deaf"))
		name, limit := rapid.String().Draw(t, "name"), rapid.IntRange(1, 25).Draw(t, "limit")
		key, preferred := rapid.String().Draw(t, "key"), 0
		for _, v := range views {
			few := v.Sharers(name, limit)
			if few.Alive() > limit {
				t.Fatalf("%d among at most %d", few.Alive(), limit)
			}
			if few.Prefers(key) {
				preferred++
				if v.Rate(name, float64(limit)) == 0 {
					t.Fatal("one without a part of the rate is preferred")
				}
			}
		}
		if preferred != 1 {
			t.Fatalf("%d are preferred", preferred)
		}
	})
}

// Of several limits on the same work, one instance holds a part of each, and the parts sum up to no
// more than each limit.
func TestOneInstanceHoldsPartOfEveryLimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 20).Draw(t, "instances")
		leaving := rapid.IntRange(0, n-1).Draw(t, "leaving")
		views := viewsOf(n, leaving, 0)
		perSecond, slots := rapid.IntRange(1, 25).Draw(t, "rate"), rapid.IntRange(1, 25).Draw(t, "slots")
		few := rapid.IntRange(1, perSecond).Draw(t, "few")
		work, sum, rate := 0, 0, 0.0
		for i, v := range views {
			v = v.Sharers("route", few)
			mine, pace := v.Share("host", slots), v.Rate("route", float64(perSecond))
			sum, rate = sum+mine, rate+pace
			if mine > 0 && pace > 0 {
				work++
			}
			if v.TakesWork() != (pace > 0) && i < n-leaving {
				t.Fatalf("takes work: %t, with %g/s", v.TakesWork(), pace)
			}
		}
		if work == 0 && leaving == 0 || sum > slots || math.Abs(rate-float64(perSecond)) > 1e-9 {
			t.Fatalf("%d can work; %d of %d slots, %g of %d/s", work, sum, slots, rate, perSecond)
		}
	})
}

// Every instance has a different rank for a partition.
func TestRanksForPartitionDiffer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 20).Draw(t, "instances")
		views := viewsOf(n, rapid.IntRange(0, n-1).Draw(t, "leaving"), rapid.IntRange(0, n).Draw(t, "deaf"))
		route, shard := rapid.String().Draw(t, "route"), rapid.IntRange(0, 100).Draw(t, "shard")
		ranks := map[int]bool{}
		for _, v := range views {
			rank := v.RankForPartition(route, shard, nil)
			if v.PrefersPartition(route, shard) != (rank == 0) {
				t.Fatalf("rank %d, preferred %t", rank, v.PrefersPartition(route, shard))
			}
			if !v.excluded && (ranks[rank] || rank >= v.Alive()) {
				t.Fatalf("rank %d of %d, and another has it: %t", rank, v.Alive(), ranks[rank])
			}
			if !v.excluded {
				ranks[rank] = true
			}
		}
	})
}

// Each instance is preferred for its part of the keys.
func TestWorkIsSpreadEvenly(t *testing.T) {
	const n, total = 8, 80000
	views := viewsOf(n, 0, 0)
	counts, works := [n]int{}, [n]int{}
	for k := range total {
		for i, v := range views {
			if v.Prefers(fmt.Sprintf("shop:orders:paid:%d", k)) {
				counts[i]++
			}
			if v.PrefersPartition(fmt.Sprintf("route%d", k/100), k%100) {
				works[i]++
			}
		}
	}
	chi, chiWork := 0.0, 0.0
	for i := range n {
		const want = float64(total) / n
		chi += (float64(counts[i]) - want) * (float64(counts[i]) - want) / want
		chiWork += (float64(works[i]) - want) * (float64(works[i]) - want) / want
	}
	// 7 degrees of freedom: more than 40 comes once in a million runs.
	if chi > 40 || chiWork > 40 {
		t.Errorf("keys %v (chi² %.1f), work %v (%.1f)", counts, chi, works, chiWork)
	}
}

func TestOnlyPartOfEndedInstanceMoves(t *testing.T) {
	views := viewsOf(5, 0, 0)
	dead := views[4]
	for k := range 5000 {
		key := fmt.Sprint("k", k)
		for _, v := range views[:4] {
			less := *v
			less.others = nil
			for _, o := range v.others {
				if o != dead.self {
					less.others = append(less.others, o)
				}
			}
			if v.Prefers(key) && !less.Prefers(key) || !v.Prefers(key) && less.Prefers(key) && !dead.Prefers(key) {
				t.Fatalf("%s moves between two that stay", key)
			}
		}
	}
}

// Hosts with fewer slots than there are instances have different holders.
func TestHostsHaveDifferentHolders(t *testing.T) {
	views := viewsOf(8, 0, 0)
	counts := [8]int{}
	for h := range 800 {
		for i, v := range views {
			counts[i] += v.Share(fmt.Sprintf("shop%d.example:443", h), 1)
		}
	}
	for _, c := range counts {
		if c < 60 || c > 145 {
			t.Errorf("single slots of 800 hosts: %v", counts)
		}
	}
}

func TestViewAllocatesNothing(t *testing.T) {
	v := viewsOf(8, 0, 0)[0]
	f, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	token := f.ID() + "-1"
	if n := testing.AllocsPerRun(100, func() {
		v.Prefers("shop:orders:paid:4711")
		v.PrefersPartition("shop:orders", 3)
		v.Share("shop.example:443", 13)
		v.Rate("shop:orders", 100)
		f.View()
		f.MayStart(token)
	}); n != 0 {
		t.Errorf("%g allocations", n)
	}
}

func BenchmarkPrefers(b *testing.B) {
	for _, n := range []int{1, 8, 64} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			v := viewsOf(n, 0, 0)[0]
			b.ReportAllocs()
			for b.Loop() {
				v.Prefers("shop:orders:paid:4711-4711-4711")
			}
		})
	}
}

func BenchmarkPrefersWork(b *testing.B) {
	v := viewsOf(8, 0, 0)[0]
	for b.Loop() {
		v.PrefersPartition("shop:orders", 3)
	}
}

func BenchmarkShare(b *testing.B) {
	v := viewsOf(8, 0, 0)[0]
	for b.Loop() {
		v.Share("shop.example:443", 13)
	}
}

func BenchmarkMayStart(b *testing.B) {
	f, err := New(Options{Takeover: MinTakeover})
	if err != nil {
		b.Fatal(err)
	}
	token := f.ID() + "-1"
	f.confirmed.Store(1)
	for b.Loop() {
		f.MayStart(token)
	}
}
