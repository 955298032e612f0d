package dispatch

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"notifier/internal/notice"
	"notifier/internal/pace"
	"notifier/internal/route"
	"notifier/internal/store"
	"notifier/internal/wire"
)

// warnEvery is how often a failing settle is logged. The affected shard of the route claims nothing
// during that time.
const warnEvery = time.Minute

// settleTries is the maximum number of attempts to get a settle confirmed: see settle.
const settleTries = 5

// settle writes the results of finished attempts of one shard to Redis. It retries while Redis is unavailable,
// because a lost settle would cause a duplicate delivery. The attempts keep their slots until settle returns.
func (q *routeQueue) settle(l *shardQueue, list []finished) {
	items := make([]store.Settlement, len(list))
	for i := range list {
		items[i] = list[i].Settlement
	}

	failed := false
	again := pace.Loop{Min: 10 * time.Millisecond, Max: maxBackoff, Logger: q.d.o.Logger, WarnEvery: warnEvery,
		Failure: "settle failed, retrying", Recovered: "settling again", Group: &q.d.settles}
	var written []store.Settled // results that are not confirmed yet
	var first []store.Settled   // results of a call that failed for the others
	for tries := 1; ; tries++ {
		done, err := q.sendSettle(l, items[len(first):])
		first = append(first, done...)
		short := errors.Is(err, wire.ErrUnconfirmed)
		if err == nil || short {
			written, first = sooner(written, first), nil
		}

		// A failover may undo an unconfirmed write. The tries are limited, so that unreachable replicas do not stop the
		// route.
		if err == nil || short && tries >= settleTries {
			if failed {
				l.health.settleTaken()
				again.Succeed(zap.String("route", q.r.Name))
			}

			q.settled(q.settleInFlight(q.refused(list, written)))
			return
		}

		var wait time.Duration
		switch {
		case short:
			wait = again.Next()
		case !failed:
			failed = true
			q.settleFailed(l, len(list))
			fallthrough
		default:
			wait = again.Fail(err, zap.String("route", q.r.Name), zap.Int("notices", len(list)))
		}

		if q.pause(l, wait) {
			continue
		}

		if short {
			q.settled(q.settleInFlight(q.refused(list, written)))
		} else {
			q.endUnsettled(list)
		}

		return
	}
}

// sendSettle sends a settle once.
func (q *routeQueue) sendSettle(l *shardQueue, items []store.Settlement) ([]store.Settled, error) {
	ctx, cancel := context.WithTimeout(context.Background(), claimTimeout+q.d.o.SettleWait)
	defer cancel()
	return q.d.o.Store.Settle(ctx, q.partition(l.shard), items)
}

// settleFailed records that a settle of n notices has failed for the first time.
func (q *routeQueue) settleFailed(l *shardQueue, n int) {
	l.health.settleFailed()
	q.d.o.Observer.Unsettled(q.r.Name, n)
}

// pause waits before the next try of a settle. It returns early if the shard's health wakes it, and
// returns false if the process stops.
func (q *routeQueue) pause(l *shardQueue, wait time.Duration) bool {
	select {
	case <-l.health.wakes():
	case <-time.After(wait):
	case <-q.stop:
		return false
	}
	return true
}

// endUnsettled ends attempts whose settle failed until the process ends.
func (q *routeQueue) endUnsettled(list []finished) {
	q.d.o.Logger.Error("settle failed at shutdown, the attempts will be repeated",
		zap.String("route", q.r.Name), zap.Int("notices", len(list)))
	for range list {
		q.d.wg.Done()
	}
}

// sooner merges the results of a settle and its retry. An item that is stale now but was written
// before was written by the settle itself.
func sooner(before, now []store.Settled) []store.Settled {
	for i := range before {
		if now[i].Stale {
			now[i] = before[i]
		}
	}
	return now
}

// unavailableFor is the postponement of a notice whose entry could not be pushed because Redis
// accepts no writes at the moment.
const unavailableFor = 250 * time.Millisecond

// refused settles again the notices whose list or stream rejected their entry, and returns the
// others. The attempt has failed, unless Redis accepts no writes at all.
func (q *routeQueue) refused(list []finished, done []store.Settled) ([]finished, []store.Settled) {
	some := false
	for i := range done {
		some = some || done[i].Refused != ""
	}

	if !some {
		return list, done
	}

	var rest []finished
	var settled []store.Settled
	for i := range list {
		if done[i].Refused == "" {
			rest, settled = append(rest, list[i]), append(settled, done[i])
			continue
		}

		e := list[i]
		// The record in memory contains the attempt as a success. Replace its end, as for an
		// attempt that was handed over.
		e.Claim.AwaitsReport = true
		e.result = notice.RetryResult(notice.ReasonQueue, done[i].Refused)
		if done[i].Unavailable {
			e.result = notice.DeferredResult(notice.ReasonQueue, unavailableFor, done[i].Refused)
		}

		e.Settlement = End(q.r, &e.Claim, e.result, notice.Attempt{At: e.at, Duration: e.took}, e.waits)
		q.shards.at(e.Claim.Shard).settles.Add(e)
	}

	return rest, settled
}

// settleInFlight removes settled notices from the table of notices in flight. It returns the attempts that have
// ended, with the replies to their settles.
func (q *routeQueue) settleInFlight(list []finished, done []store.Settled) ([]finished, []store.Settled) {
	var again []finished
	var begin []job
	q.mu.Lock()
	closed := q.closed
	q.mu.Unlock()
	kept := 0
	for i := range list {
		// This process has claimed the notice again during the attempt.
		if next := q.inFlight.settled(&list[i].Claim); next != nil {
			// Redis has lost the first claim. The result is settled under the second one.
			if done[i].Stale {
				e := list[i]
				e.Claim.Take(next.claim)
				again = append(again, e)
				begin = append(begin, job{trigger: next.trigger})
				continue
			}
			// The notice has become due again, and the attempt of the second claim starts.
			begin = append(begin, *next)
		}

		list[kept], done[kept] = list[i], done[i]
		kept++
	}

	for _, j := range begin {
		if j.claim != nil {
			q.work(j, closed)
		} else { // the running attempt has its own slot
			q.freeSlots(freed{slots: 1, running: 1, swept: j.trigger.swept(1)})
		}
	}

	for _, e := range again {
		q.shards.at(e.Claim.Shard).settles.Add(e)
	}

	return list[:kept], done[:kept]
}

// settled frees the slots of settled attempts, and logs and counts them. It claims the notices that waited for
// these, without waiting for their wake message.
func (q *routeQueue) settled(list []finished, done []store.Settled) {
	f := freed{running: len(list)}
	for i := range list {
		if list[i].slot {
			f.slots++
			f.swept += list[i].trigger.swept(1)
		}
	}

	q.gate.rememberAll(list, done)
	q.freeSlots(f)
	if len(done) > 0 && q.r.Order != route.OrderNone {
		q.woke(list[0].Claim.Shard, done[0].Woke)
	}

	for i := range list {
		if list[i].pushes && !done[i].Stale {
			q.observe(&list[i])
		}

		if !done[i].Stale {
			q.gate.answered(&list[i])
		}

		list[i].endSpan(q.r)
		q.d.log.record(&list[i], q.r, done[i])
		q.d.wg.Done()
	}
}
