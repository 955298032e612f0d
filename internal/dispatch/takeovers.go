package dispatch

// maxTakeovers bounds the pending reclaims of one route. Claims beyond it come back when their
// lease expires.
const maxTakeovers = 1024

// takeover is the rest of a dead instance's claims in one shard.
type takeover struct {
	holder string
	shard  int
	from   string // cursor of the next call
}

func (q *readyQueue) askTakeover(t takeover) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.plan.remember(t)
	q.claimMore()
}
