package harness

import (
	"context"
	"time"

	"notifier/bench/peer"
	"notifier/bench/server"
)

// spent is the processor time of a cell up to an instant: of this process,
// which holds the peer's workers, and of the peer's servers.
type spent struct {
	usage   peer.Usage
	own     time.Duration
	servers []time.Duration // one by one, as the peer names them
	at      time.Time
}

func spentSoFar(ctx context.Context, b *Bench) spent {
	s := spent{usage: b.usage(ctx)}
	if b.worker != 0 {
		s.usage.PIDs = append(s.usage.PIDs, b.worker)
	}

	s.servers, s.own, s.at = must(server.CPU(s.usage.PIDs...)), must(server.OwnCPU()), time.Now()
	return s
}

// cost reads the processor times and the usage before and after do.
func cost(ctx context.Context, b *Bench, do func() error) (before, after spent) {
	before = spentSoFar(ctx, b)
	check(do())
	return before, spentSoFar(ctx, b)
}

func (s spent) all() (sum time.Duration) {
	for _, d := range s.servers {
		sum += d
	}
	return sum
}

// perJob adds what n jobs took since an earlier reading, in microseconds each.
func (s spent) perJob(v Values, before spent, n int64) {
	if n == 0 {
		return
	}

	each := func(name string, d time.Duration) { v[name] = float64(d.Microseconds()) / float64(n) }
	each("cpu_own", s.own-before.own)
	each("cpu_servers", s.all()-before.all())
	if len(s.servers) > 1 { // a service or a worker, and its server
		redis := s.servers[0] - before.servers[0]
		each("cpu_redis", redis)
		each("cpu_service", s.all()-before.all()-redis)
	}

	if s.usage.CPU > 0 {
		each("cpu_info", s.usage.CPU-before.usage.CPU)
	}

	for name, sum := range map[string]int64{"trips": s.usage.Trips - before.usage.Trips,
		"commands": s.usage.Commands - before.usage.Commands} {
		if sum > 0 { // else the server does not say
			v[name] = float64(sum) / float64(n)
		}
	}
}
