package dispatch

import (
	"slices"
	"time"
)

// maxTakeovers bounds how many take-overs of one route are remembered; what is
// not taken over comes back when its lease has lapsed.
const maxTakeovers = 1024

// takeover is what a dead instance has claimed of one shard, as far as it is not
// looked through yet.
type takeover struct {
	holder string
	shard  int
	from   string // where to go on
}

func (q *routeQueue) askTakeover(t takeover) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.remember(t)
	q.claimMore()
}

// remember keeps a take-over until there are slots for it. The caller holds mu.
func (q *routeQueue) remember(t takeover) {
	if !q.closed && len(q.takeovers) < maxTakeovers {
		q.takeovers = append(q.takeovers, t)
	}
}

// claimTaken goes on with one of the take-overs. What it wins is worked like
// claims whose lease has lapsed. The caller holds mu.
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
