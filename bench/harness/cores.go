package harness

import (
	"context"
	"fmt"
	"slices"
	"time"

	"notifier/bench/peer"
)

// coreCounts are the numbers of processors of the service in the runs of the cores case. The
// order is symmetric, so that a drift of the machine affects all numbers alike.
var coreCounts = []int{1, 2, 2, 1}

// projectedCores are the numbers of processors that the case projects.
var projectedCores = []int{4, 8}

// Contender is a peer that reports how long its goroutines have waited for locks.
type Contender interface {
	peer.Peer
	LockWait(ctx context.Context) (time.Duration, error)
}

func coresCaseOf(size Size) Case {
	return Case{Name: "cores", Title: "HTTP callbacks by the service's processors",
		What: fmt.Sprintf("%s jobs due at one ms, delivered to one local receiver with %d calls in flight, by a service with GOMAXPROCS=1, "+
			"2, 2 and 1, each on a separate Redis. Redis and the receiver share the machine's cores. Locks are how long all goroutines "+
			"of the service have waited for all of its locks (the Go runtime's /sync/mutex/wait/total), by the time that the calls in flight "+
			"took together. Projected is what so many cores for the service alone allow: the processor time of a call at 2, grown by each "+
			"doubling as from 1 to 2, and Redis, whose commands run on one core.", thousands(size.Calls), drainHandlers),
		Columns: slices.Concat(by([]Column{{"rate", "callbacks/s"}, {"cpu_service", "service, CPU µs/call"},
			{"cpu_redis", "Redis, CPU µs/call"}, {"locks", "waiting for locks, %"}}, []int{1, 2}, ""),
			by([]Column{{"projected", "projected/s"}}, projectedCores, "")),
		Counts: true, Only: overHTTP, Env: peer.Env{Handlers: drainHandlers}, Run: coresCase}
}

// coresCase measures separate services, because the service of the case's start has all cores.
func coresCase(ctx context.Context, b *Bench) Values {
	v := Values{}
	for _, n := range coreCounts {
		w := withCores(ctx, b, n)
		v.addCounts(w)
		for _, name := range []string{"rate", "cpu_service", "cpu_redis", "locks"} {
			v[fmt.Sprintf("%s_%d", name, n)] += w[name] / 2
		}
	}

	for _, n := range projectedCores {
		v[fmt.Sprintf("projected_%d", n)] = projected(v, n)
	}

	return v
}

// projected is how many calls a second n cores of the service's own allow.
func projected(v Values, n int) float64 {
	each, grows := v["cpu_service_2"], max(1, v["cpu_service_2"]/v["cpu_service_1"])
	for have := 2; have < n; have *= 2 {
		each *= grows
	}

	return min(float64(n)*1e6/each, 1e6/v["cpu_redis_2"])
}

// withCores drains calls by a service that may use n cores.
func withCores(ctx context.Context, b *Bench, n int) Values {
	p := b.New()
	c, ok := p.(Contender)
	if !ok {
		check(fmt.Errorf("%s does not report its waits for locks", b.Info.Name))
	}

	with := *b
	with.Peer, with.Env.Dir, with.Env.Cores = p, b.dir("cores"), n
	with.Size.Drain, with.Size.DrainMax = b.Size.Calls, max(b.Size.DrainMax, time.Minute)
	defer func() { check(p.Stop()) }()
	check(p.Start(ctx, with.Env))
	var before time.Duration
	v := drainCase(ctx, &with, func(handle peer.Handle) {
		with.work(ctx, handle)
		before = must(c.LockWait(ctx))
	})
	if v["rate"] > 0 {
		took := (v["jobs"] - v["missing"]) / v["rate"] * drainHandlers // seconds of all that were under way
		v["locks"] = 100 * (must(c.LockWait(ctx)) - before).Seconds() / took
	}

	return v
}
