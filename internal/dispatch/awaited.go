package dispatch

import "time"

const (
	// reportGrace is the minimum time for a report after Redis is available again. Consumers retry
	// a report at least every 2 s.
	reportGrace = 5 * time.Second
	// lateWait is how late the deadline of a report must be noticed to count as an outage that this
	// process has not seen.
	lateWait = time.Second
)

// awaits returns how much longer to wait for a consumer's report on the notice of j, once the report's deadline has
// passed. Zero means that the report is missing. The wait is normally extended only after an outage of Redis, because
// consumers cannot report during one.
func (a *attempts) awaits(j job, now time.Time) time.Duration {
	c := j.claim
	if len(c.Attempts) == 0 || c.Attempts[len(c.Attempts)-1].At.IsZero() {
		return 0
	}

	pushed := c.Attempts[len(c.Attempts)-1].At
	_, failed := a.shards.at(c.Shard).delays.last()
	ahead := j.now.Sub(j.at) // offset between Redis's clock and this process's
	most := max(a.r.Timeout, reportGrace)
	// From the end of the outage on, the consumer gets as much time as the outage has taken from its wait, but at least
	// reportGrace, and above that at most the route's timeout.
	if until := failed.until.Add(ahead); !failed.until.IsZero() && until.After(pushed) {
		from := pushed
		if at := failed.from.Add(ahead); !failed.from.IsZero() && at.After(from) {
			from = at
		}

		if left := until.Add(min(max(until.Sub(from), reportGrace), most)).Sub(now); left > 0 {
			return left
		}
	}

	// No instance checked when the deadline passed. Only the first wait is extended for that:
	// otherwise a route that is always late would never end its attempts.
	if late := now.Sub(c.Attention); late > lateWait && c.Attention.Sub(pushed) < a.r.Timeout+lateWait {
		return min(max(late, reportGrace), most)
	}

	return 0
}
