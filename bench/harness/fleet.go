package harness

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"notifier/bench/peer"
)

// fleetRate is the number of due jobs a second.
const fleetRate = 1000

// Fleet is a peer whose service may have several processes that work together.
type Fleet interface {
	peer.Peer
	// Resize starts or stops processes until n run and know each other.
	Resize(ctx context.Context, n int) error
	// InVain is how many jobs they asked for and did not get.
	InVain(ctx context.Context) (int64, error)
}

func fleetCaseOf(size Size) Case {
	numbers := strings.ReplaceAll(strings.Trim(fmt.Sprint(size.Fleet), "[]"), " ", ", ")
	c := Case{Name: "fleet", Title: "Several instances", What: fmt.Sprintf("%s serve processes, one number after another, on one Redis, "+
		"1,000 jobs a second at random whole ms for %s each, among %s others due in a day; measurements of one number are taken together. "+
		"The receiver is another process. A round trip is a read of Redis from a connection; commands include those inside scripts; asked "+
		"for in vain are claims that another instance had or that were stale.", numbers, size.Window, thousands(size.Pending)),
		Counts: true, Only: overHTTP, Run: fleetCase}
	sizes := slices.Compact(slices.Sorted(slices.Values(size.Fleet)))
	c.Columns = append(by(fleetFigures, sizes, ""), Column{"vain", "asked for in vain/job, 8"})
	return c
}

func asFleet(b *Bench) Fleet {
	f, ok := b.Peer.(Fleet)
	if !ok {
		check(fmt.Errorf("%s has no service of several processes", b.Info.Name))
	}

	return f
}

func fleetCase(ctx context.Context, b *Bench) Values {
	f := asFleet(b)
	b.fill(ctx, b.Size.Pending)
	p := newPhases(int(fleetRate*b.Size.Window.Seconds()), len(b.Size.Fleet))
	b.work(ctx, p.handle)
	measured := make([]Values, len(b.Size.Fleet))
	for phase, n := range b.Size.Fleet {
		check(f.Resize(ctx, n))
		before := must(f.InVain(ctx))
		measured[phase] = p.measure(ctx, b, phase, p.per, 10*slowest)
		measured[phase]["vain"] = float64(must(f.InVain(ctx))-before) / float64(p.per)
	}

	return fleetValues(b.Size.Fleet, measured)
}

// idleFleetCase measures eight instances that have nothing to do.
func idleFleetCase(ctx context.Context, b *Bench) Values {
	b.fill(ctx, 1000)
	check(asFleet(b).Resize(ctx, 8))
	return idleFor(ctx, b)
}

// fleetFigures are the figures that the fleet case compares between eight instances and one.
var fleetFigures = []Column{{"trips", "Redis round trips/job"}, {"commands", "Redis commands/job"},
	{"cpu_redis", "Redis, CPU µs/job"}, {"cpu_info", "by its INFO"}, {"cpu_service", "services, CPU µs/job"},
	{"p99_ms", "p99 ms"}}

// fleetValues combines the phases: sums of the counts, the mean of each figure by number of
// instances, and the ratios of eight instances to one.
func fleetValues(sizes []int, measured []Values) Values {
	v, phases := Values{}, map[int]float64{}
	for _, n := range sizes {
		phases[n]++
	}

	for phase, w := range measured {
		v.addCounts(w)
		n := sizes[phase]
		for _, f := range fleetFigures {
			v[fmt.Sprintf("%s_%d", f.Value, n)] += w[f.Value] / phases[n]
		}

		if n == 8 {
			v["vain"] = w["vain"]
		}
	}

	for _, f := range fleetFigures {
		v[f.Value+"_ratio"] = v[f.Value+"_8"] / v[f.Value+"_1"]
	}

	return v
}
