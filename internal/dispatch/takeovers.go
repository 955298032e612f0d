package dispatch

import (
	"slices"
	"time"
)

// maxTakeovers bounds the pending reclaims of one route. Claims beyond it come back when their
// lease expires.
const maxTakeovers = 1024

// takeover is the rest of a dead instance's claims in one shard.
type takeover struct {
	holder string
	shard  int
	from   string // cursor of the next call
}

func (q *routeQueue) askTakeover(t takeover) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.remember(t)
	q.claimMore()
}

// remember keeps a reclaim until there are slots for it. The caller holds mu.
func (q *routeQueue) remember(t takeover) {
	if !q.closed && len(q.takeovers) < maxTakeovers {
		q.takeovers = append(q.takeovers, t)
	}
}

// claimTaken continues one of the reclaims. Reclaimed notices are handled like those with an
// expired lease. The caller holds mu.
func (q *routeQueue) claimTaken(i int) bool {
	n := q.d.total.take(&q.share, min(q.slots.room(), maxBatch))
	if n == 0 {
		return false
	}

	t := q.takeovers[i]
	q.takeovers = slices.Delete(q.takeovers, i, i+1)
	q.begin(call{kind: kindTakeover, trigger: triggerSweep, shard: t.shard, token: q.d.token(), n: n, asked: n, over: t, begun: time.Now()})
	return true
}
