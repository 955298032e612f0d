package harness

import (
	"context"
	"fmt"
	"slices"

	"notifier/bench/peer"
)

// steadyRates are how many jobs are due a second, one rate after another on one server.
var steadyRates = []int{100, 1000, 5000}

// leasing are the peers that give a job back when its worker dies.
var leasing = []string{"notifier", "asynq", "asynq-10ms", "asynq-2ms", "gocraft", "river", "beanstalkd"}

func steadyCaseOf(size Size) Case {
	c := Case{Name: "steady", Title: "A steady load",
		What: fmt.Sprintf("100, 1,000 and 5,000 jobs a second at random whole ms for %s each, one after "+
			"another on one server, scheduled before, nothing else pending, %d handlers that do nothing; the servers' processor time, and the "+
			"commands of Redis, those inside scripts included, from the first job due to half a second after the last was handled. Only peers that "+
			"give a job back when its worker dies.", size.Window, lateHandlers),
		Counts: true, Run: steadyCase,
		Only: func(i peer.Info) bool { return slices.Contains(leasing, i.Name) }}
	c.Columns = by([]Column{{"cpu_servers", "servers, CPU µs/job"}, {"commands", "commands/job"}, {"p99_ms", "p99 ms"}},
		steadyRates, "/s")
	return c
}

func steadyCase(ctx context.Context, b *Bench) Values {
	speed := warm(ctx, b)
	jobsAt := func(rate int) int { return int(float64(rate) * b.Size.Window.Seconds()) }
	all := newPhases(jobsAt(slices.Max(steadyRates)), len(steadyRates))
	b.work(ctx, all.handle)
	v := Values{}
	for i, rate := range steadyRates {
		w := all.measure(ctx, b, i, jobsAt(rate), speed)
		v.addCounts(w)
		for _, name := range []string{"cpu_servers", "commands", "p99_ms"} {
			if x, ok := w[name]; ok {
				v[fmt.Sprintf("%s_%d", name, rate)] = x
			}
		}
	}

	return v
}
