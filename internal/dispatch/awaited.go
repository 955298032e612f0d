package dispatch

import "time"

const (
	// reportGrace is the least time that a consumer has for its report once Redis is back:
	// consumers repeat a report every 2 s at most.
	reportGrace = 5 * time.Second
	// lateWait is by how much the end of a wait for a report must be late for it to count as
	// an outage that this process has not seen.
	lateWait = time.Second
)

// awaits is for how much longer the report of c is waited for, at now by Redis's clock. While
// Redis was unavailable the consumer could not take its entry or report on it, which must not
// use an attempt: that time does not count, and reportGrace is the least that is left then.
func (q *routeQueue) awaits(j job, now time.Time) time.Duration {
	c := j.claim
	if len(c.Attempts) == 0 || c.Attempts[len(c.Attempts)-1].At.IsZero() {
		return 0
	}
	pushed := c.Attempts[len(c.Attempts)-1].At
	q.mu.Lock()
	failed := q.shards.at(c.Shard).failedFor
	q.mu.Unlock()
	ahead := j.now.Sub(j.at) // Redis's clock and this process's differ
	most := max(q.r.Timeout, reportGrace)
	if until := failed.until.Add(ahead); !failed.until.IsZero() && until.After(pushed) {
		from := pushed
		if at := failed.from.Add(ahead); !failed.from.IsZero() && at.After(from) {
			from = at
		}
		if left := until.Add(min(max(until.Sub(from), reportGrace), most)).Sub(now); left > 0 {
			return left
		}
	}
	// Nobody looked when the wait was over. Only the first wait is made longer for that: a
	// route that is always late would never end its attempts.
	if late := now.Sub(c.Attention); late > lateWait && c.Attention.Sub(pushed) < q.r.Timeout+lateWait {
		return min(max(late, reportGrace), most)
	}
	return 0
}
