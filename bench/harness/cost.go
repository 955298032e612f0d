package harness

import (
	"context"
	"time"

	"notifier/bench/server"
)

// spent is the processor time of a cell up to an instant: of this process,
// which holds the peer's workers, and of the peer's servers.
type spent struct {
	own     time.Duration
	servers []time.Duration // one by one, as the peer names them
	at      time.Time
}

func spentSoFar(ctx context.Context, b *Bench) (s spent, err error) {
	usage, err := b.Peer.Usage(ctx)
	if err != nil {
		return s, err
	}
	s.servers = make([]time.Duration, len(usage.PIDs))
	for i, pid := range usage.PIDs {
		if s.servers[i], err = server.CPU(pid); err != nil {
			return s, err
		}
	}
	s.own, err = server.OwnCPU()
	s.at = time.Now()
	return s, err
}

func (s spent) all() (sum time.Duration) {
	for _, d := range s.servers {
		sum += d
	}
	return sum
}

// perJob adds what n jobs took since an earlier reading, in microseconds each.
func (s spent) perJob(v Values, before spent, n float64) {
	if n == 0 {
		return
	}
	v["cpu_own"] = float64((s.own - before.own).Microseconds()) / n
	v["cpu_servers"] = float64((s.all() - before.all()).Microseconds()) / n
}
