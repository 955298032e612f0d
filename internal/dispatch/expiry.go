package dispatch

import (
	"context"
	"time"

	"go.uber.org/zap"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/store"
)

// expiryPause is the time after a failed call in which no other one is sent for the same partition.
const expiryPause = 50 * time.Millisecond

// Expire makes the notices of a partition dead that have expired. They need no slots, so Expire does so on a paused route, and at an
// instance whose slots are all taken, too. It never blocks. A call during another one for the same partition does nothing.
func (d *Dispatcher) Expire(p keys.Partition) {
	q := d.queues[p.Prefix]
	if q == nil {
		return
	}

	l := q.shards.at(p.Shard)
	q.mu.Lock()
	defer q.mu.Unlock()
	if l.expiring || q.closed {
		return
	}

	l.expiring = true
	d.wg.Add(1)
	go func() {
		defer d.wg.Done()
		wait := q.expireAll(l)
		time.AfterFunc(wait, func() {
			q.mu.Lock()
			defer q.mu.Unlock()
			l.expiring = false
		})
	}()
}

// expireAll claims and settles expired notices until none is left, and returns how long to wait before the next call.
func (q *routeQueue) expireAll(l *shardQueue) time.Duration {
	for {
		sent := time.Now()
		ctx, cancel := context.WithTimeout(q.d.work, claimTimeout)
		c, err := q.d.o.Store.Sweep(ctx, q.partition(l.shard), store.Lease{Token: q.d.token(), For: q.r.Lease()},
			store.SweepOptions{Expired: true, Limit: maxBatch})
		cancel()
		if err != nil {
			l.delays.claimFailed(sent)
			l.health.claims.Report(err, zap.String("route", q.r.Name), zap.Int("shard", l.shard))
			return expiryPause
		}

		l.delays.claimed(time.Now())
		q.d.o.Observer.Claim(notice.SourceSweep, notice.ClaimWon, len(c.Won))
		q.settleExpired(l, &c)
		q.mu.Lock()
		more := c.More && !q.closed
		q.mu.Unlock()
		if !more {
			return 0
		}
	}
}

// settleExpired settles notices that were claimed because they have expired.
func (q *routeQueue) settleExpired(l *shardQueue, c *store.Claimed) {
	if len(c.Won) == 0 {
		return
	}

	q.mu.Lock()
	q.slots.running += len(c.Won)
	q.mu.Unlock()
	j := job{queue: q, now: c.Now, at: time.Now(), trigger: triggerSweep}
	list := make([]finished, len(c.Won))
	for i := range c.Won {
		won := &c.Won[i]
		countExpired(q.r, won, c.Now)
		e := &list[i]
		e.result, e.attempt, e.at = expiredResult(), won.NextAttempt(), c.Now
		if won.AwaitsReport { // the attempt was made
			j.claim = won
			e.result, e.attempt = q.unreported(j, c.Now), won.AttemptsMade
		}

		e.Settlement = End(q.r, won, e.result, notice.Attempt{At: c.Now}, notice.Waits{})
		q.d.wg.Add(1)
	}

	q.settle(l, list)
}

// expiredResult is the result of an attempt that is not made because the notice has expired.
func expiredResult() notice.Result {
	r := notice.DeadResult(notice.ReasonExpired, "its time to be delivered is over")
	r.Unsent = true
	return r
}
