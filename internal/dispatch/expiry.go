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
	if q := d.queues[p.Prefix]; q != nil {
		q.expire(q.shards.at(p.Shard))
	}
}

// expire settles the expired notices of a shard in a separate goroutine, unless another one does so.
func (q *readyQueue) expire(l *shardQueue) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if l.expiring || q.closed {
		return
	}

	l.expiring = true
	q.d.wg.Add(1)
	go func() {
		defer q.d.wg.Done()
		wait := q.attempts.expireAll(l)
		time.AfterFunc(wait, func() {
			q.mu.Lock()
			defer q.mu.Unlock()
			l.expiring = false
		})
	}()
}

// expireAll claims and settles expired notices until none is left, and returns how long to wait before the next call.
func (a *attempts) expireAll(l *shardQueue) time.Duration {
	for {
		sent := time.Now()
		ctx, cancel := context.WithTimeout(a.d.work, claimTimeout)
		c, err := a.d.o.Store.Sweep(ctx, partition(a.r, l.shard), store.Lease{Token: a.d.token(), For: a.r.Lease()},
			store.SweepOptions{Expired: true, Limit: maxBatch})
		cancel()
		if err != nil {
			l.delays.claimFailed(sent)
			l.health.claims.Report(err, zap.String("route", a.r.Name), zap.Int("shard", l.shard))
			return expiryPause
		}

		l.delays.claimed(time.Now())
		a.d.o.Observer.Claim(notice.SourceSweep, notice.ClaimWon, len(c.Won))
		a.settleExpired(l, &c)
		if !c.More || a.queue.isClosed() {
			return 0
		}
	}
}

// settleExpired settles notices that were claimed because they have expired.
func (a *attempts) settleExpired(l *shardQueue, c *store.Claimed) {
	if len(c.Won) == 0 {
		return
	}

	a.queue.addRunning(len(c.Won))
	j := job{attempts: a, now: c.Now, at: time.Now(), trigger: triggerSweep}
	list := make([]finished, len(c.Won))
	for i := range c.Won {
		won := &c.Won[i]
		countExpired(a.r, won, c.Now)
		e := &list[i]
		e.result, e.attempt, e.at = expiredResult(), won.NextAttempt(), c.Now
		if won.AwaitsReport { // the attempt was made
			j.claim = won
			e.result, e.attempt = a.unreported(j, c.Now), won.AttemptsMade
		}

		e.Settlement = End(a.r, won, e.result, notice.Attempt{At: c.Now}, notice.Waits{})
		a.d.wg.Add(1)
	}

	a.settle(l, list)
}

// expiredResult is the result of an attempt that is not made because the notice has expired.
func expiredResult() notice.Result {
	r := notice.DeadResult(notice.ReasonExpired, "its time to be delivered is over")
	r.Unsent = true
	return r
}
