package fleet

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"go.uber.org/zap"

	"notifier/internal/keys"
	"notifier/internal/route"
)

// fewOf leaves the routes it names to so many instances.
type fewOf map[string]int

func (fewOf) Slots(r *route.Route) int          { return r.Slots() }
func (f fewOf) MaxInstances(r *route.Route) int { return f[r.Name] }

// looks counts the sweeps of all partitions that an inactive instance has caused.
type looks int

func (l *looks) Now() { *l++ }

// assigned makes an Assignment for each player.
func assigned(t *testing.T, ps []*player, limits Limits, sweeps Sweeper) (list []*Assignment) {
	t.Helper()
	routes, err := route.NewTable([]*route.Route{{Name: "wide", Prefix: "wide", Concurrency: 64},
		{Name: "narrow", Prefix: "narrow", Concurrency: 64}, {Name: "adopts", Prefix: "adopts", Adopt: true, Concurrency: 64}})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range ps {
		list = append(list, NewAssignment(AssignmentOptions{Fleet: p.Fleet, Routes: routes, Space: keys.Space{Shards: 4}, Limits: limits,
			Concurrency: 100, Sweeper: sweeps, Logger: zap.NewNop()}))
	}
	return list
}

func TestAssignmentGivesEachPartOneOwner(t *testing.T) {
	plays(t, 4, func(t *testing.T, _ *node, ps []*player) {
		all := assigned(t, ps, fewOf{"narrow": 2}, new(looks))
		tends, works := 0, map[string]map[int]bool{}
		for i, a := range all {
			if a.Parts() != 16 || a.Alive() != 4 {
				t.Errorf("%d alive, %d parts", a.Alive(), a.Parts())
			}
			if a.Group(keys.Partition{Prefix: "wide"}) != maxGroup || a.Group(keys.Partition{Prefix: "adopts"}) != 1 {
				t.Error("groups are of another size")
			}
			if a.Drains(1) {
				tends++
			}
			for _, name := range []string{"wide", "narrow", "adopts"} {
				r := a.o.Routes.Prefix(name)
				if mine, ok := a.OwnsGroup(r, ps[i].ID()); !mine || ok == r.Adopt {
					t.Errorf("%s: a group for this instance: %t, %t", name, mine, ok)
				}
				for k := range 200 {
					key := fmt.Sprintf("%s:m:t:%d", name, k)
					if leaves := a.LeavesToPeer(r, key); !leaves && !r.Adopt {
						if works[name] == nil {
							works[name] = map[int]bool{}
						}
						works[name][i] = true
						if a.Owner(keys.Partition{Prefix: name}, key) != ps[i].ID() {
							t.Errorf("%s is taken here, and another instance owns it", key)
						}
					} else if leaves && r.Adopt {
						t.Errorf("%s is left, and its event may announce a new timer", key)
					}
				}
			}
		}
		if tends != 1 || len(works["wide"]) != 4 || len(works["narrow"]) != 2 {
			t.Errorf("%d tend an old shard, %d work on the wide route and %d on the narrow one", tends, len(works["wide"]), len(works["narrow"]))
		}
		for shard := range 4 {
			p := keys.Partition{Prefix: "wide", Shard: shard}
			var ranks []int
			reclaims, tidies := 0, 0
			for _, a := range all {
				ranks = append(ranks, a.Rank(p))
				if a.Reclaims(p) {
					reclaims++
				}
				if a.Tidies(p) {
					tidies++
				}
			}
			if slices.Sort(ranks); !slices.Equal(ranks, []int{0, 1, 2, 3}) || reclaims != 1 || tidies != 1 {
				t.Errorf("shard %d: ranks %v, %d reclaim and %d tidy", shard, ranks, reclaims, tidies)
			}
		}
	})
}

func TestAssignmentServesInactiveInstances(t *testing.T) {
	plays(t, 3, func(t *testing.T, _ *node, ps []*player) {
		n := new(looks)
		all := assigned(t, ps, nil, n)
		p := keys.Partition{Prefix: "wide"}
		last := slices.IndexFunc(all, func(a *Assignment) bool { return a.Rank(p) == 2 })
		a := all[last]
		a.NotSwept(p)
		a.NotSwept(p)
		if a.Rank(p) != 0 || *n != 1 {
			t.Errorf("rank %d after the others have left the partition, %d looks", a.Rank(p), *n)
		}
		time.Sleep(inactiveFor) // sleep: virtual
		if a.Rank(p) != 2 {
			t.Errorf("rank %d once the others are not absent any more", a.Rank(p))
		}

		preferred := slices.IndexFunc(all, func(a *Assignment) bool { return a.Rank(p) == 0 })
		a, r := all[preferred], all[preferred].o.Routes.Prefix("wide")
		key := ""
		for k := 0; key == "" || !a.LeavesToPeer(r, key) || a.o.Space.Shard(key) != 0; k++ {
			key = fmt.Sprintf("wide:m:t:%d", k)
		}
		a.NotClaimedBy(a.Owner(p, key))
		if a.LeavesToPeer(r, key) || a.Owner(p, key) != ps[preferred].ID() {
			t.Error("the preferred instance is absent, and its notice is left to it")
		}
		a.NotClaimedBy(ps[preferred].ID())
		if a.Rank(p) != 0 {
			t.Error("an instance is absent to itself")
		}
	})
}
