package dispatch

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"notifier/internal/notice"
	"notifier/internal/retry"
	"notifier/internal/store"
	"notifier/internal/wire"
)

// warnEvery is how often the log tells of a settle that Redis does not take: its
// route stands still for as long.
const warnEvery = time.Minute

// settleTries is how often a settle is made that is not confirmed: see settle.
const settleTries = 5

// settle writes finished attempts of one shard, again and again until Redis takes them:
// a lost settle would double the notice.
//
// One that Redis took and that was not confirmed is made again too: where a failover
// has undone it meanwhile, it is written on the new master. That ends after some tries,
// so that a route is slowed by replicas that are away and not stopped; until then the
// attempts keep their slots.
func (q *routeQueue) settle(l *shardQueue, list []finished) {
	items := make([]store.Settlement, len(list))
	for i := range list {
		items[i] = list[i].Settlement
	}
	failed := false
	again := retry.Loop{Min: 10 * time.Millisecond, Max: maxBackoff, Logger: q.d.o.Logger, WarnEvery: warnEvery,
		Failure: "settle failed, retrying", Recovered: "settling again"}
	var written []store.Settled // what was answered, as long as it is not confirmed
	for tries := 1; ; tries++ {
		ctx, cancel := context.WithTimeout(context.Background(), claimTimeout+q.d.o.SettleWait)
		done, err := q.d.o.Store.Settle(ctx, q.partition(l.shard), items)
		cancel()
		short := errors.Is(err, wire.ErrUnconfirmed)
		if err == nil || short {
			written = sooner(written, done)
		}
		if err == nil || short && tries >= settleTries {
			if failed {
				l.health.settleTaken()
				again.Succeed(zap.String("route", q.r.Name))
			}
			q.settled(q.settledInHand(q.refused(list, written)))
			return
		}
		if !short && !failed {
			failed = true
			l.health.settleFailed()
			q.d.o.Observer.Unsettled(q.r.Name, len(list))
		}
		var wait time.Duration
		if short {
			wait = again.Next()
		} else {
			wait = again.Fail(err, zap.String("route", q.r.Name), zap.Int("notices", len(list)))
		}
		select {
		case <-l.health.wakes():
		case <-time.After(wait):
		case <-q.stop:
			if short {
				q.settled(q.settledInHand(q.refused(list, written)))
				return
			}
			q.d.o.Logger.Error("attempts could not be settled and will be made again", zap.String("route", q.r.Name), zap.Int("notices", len(list)))
			for range list {
				q.d.wg.Done()
			}
			return
		}
	}
}

// sooner are the answers to a settle that was made again: what is stale now and
// was written before was written by this settle itself.
func sooner(before, now []store.Settled) []store.Settled {
	for i := range before {
		if now[i].Stale {
			now[i] = before[i]
		}
	}
	return now
}

// unavailableFor is how long a notice is postponed whose entry Redis could not take
// because it takes no writes at the moment.
const unavailableFor = 250 * time.Millisecond

// refused settles once more the notices whose list or stream did not take their entry,
// and returns the others. The attempt has failed, unless Redis takes no writes at all.
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
		// The record in memory holds the attempt as a success; as with one
		// that was handed over, its end is written into it.
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

// settledInHand ends what this process had in hand, as its settle was answered.
// Where the notice was claimed again meanwhile, the settle is made once more by
// the later claim if it was stale, and what is returned lacks it; otherwise it has
// come round since, and that claim is worked on.
func (q *routeQueue) settledInHand(list []finished, done []store.Settled) ([]finished, []store.Settled) {
	var again []finished
	var begin []job
	q.mu.Lock()
	closed, kept := q.closed, 0
	for i := range list {
		if next := q.inHand.settled(&list[i].Claim); next != nil {
			if done[i].Stale {
				e := list[i]
				e.Claim.Take(next.claim)
				again = append(again, e)
				begin = append(begin, job{trigger: next.trigger})
				continue
			}
			begin = append(begin, *next)
		}
		list[kept], done[kept] = list[i], done[i]
		kept++
	}
	q.mu.Unlock()
	for _, j := range begin {
		if j.claim != nil {
			q.work(j, closed)
		} else { // what runs has a slot of its own
			q.release(freed{slots: 1, running: 1, swept: j.trigger.swept(1)})
		}
	}
	for _, e := range again {
		q.shards.at(e.Claim.Shard).settles.Add(e)
	}
	return list[:kept], done[:kept]
}

// settled frees what the settled attempts held, and tells of them.
func (q *routeQueue) settled(list []finished, done []store.Settled) {
	f := freed{running: len(list)}
	for i := range list {
		if list[i].slot {
			f.slots++
			f.swept += list[i].trigger.swept(1)
		}
	}
	q.rememberAll(list, done)
	q.release(f)
	for i := range list {
		if list[i].pushes && !done[i].Stale {
			q.observe(&list[i])
		}
		if !done[i].Stale {
			list[i].observeReceiver(q.d.o.Health, q.r)
		}
		list[i].endSpan(q.r)
		q.d.log.record(&list[i], q.r, done[i])
		q.d.wg.Done()
	}
}
