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
func (a *attempts) settle(l *shardQueue, list []finished) {
	items := make([]store.Settlement, len(list))
	for i := range list {
		items[i] = list[i].Settlement
	}

	failed := false
	again := pace.Loop{Min: 10 * time.Millisecond, Max: maxBackoff, Logger: a.d.o.Logger, WarnEvery: warnEvery,
		Failure: "settle failed, retrying", Recovered: "settling again", Group: &a.d.settles}
	var written []store.Settled // results that are not confirmed yet
	var first []store.Settled   // results of a call that failed for the others
	for tries := 1; ; tries++ {
		done, err := a.sendSettle(l, items[len(first):])
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
				again.Succeed(zap.String("route", a.r.Name))
			}

			a.settled(a.settleInFlight(a.refused(list, written)))
			return
		}

		var wait time.Duration
		switch {
		case short:
			wait = again.Next()
		case !failed:
			failed = true
			l.health.settleFailed()
			a.d.o.Observer.Unsettled(a.r.Name, len(list))
			fallthrough
		default:
			wait = again.Fail(err, zap.String("route", a.r.Name), zap.Int("notices", len(list)))
		}

		if l.pause(wait, a.stop) {
			continue
		}

		if short {
			a.settled(a.settleInFlight(a.refused(list, written)))
		} else {
			a.endUnsettled(list)
		}

		return
	}
}

// sendSettle sends a settle once.
func (a *attempts) sendSettle(l *shardQueue, items []store.Settlement) ([]store.Settled, error) {
	ctx, cancel := context.WithTimeout(context.Background(), claimTimeout+a.d.o.SettleWait)
	defer cancel()
	return a.d.o.Store.Settle(ctx, partition(a.r, l.shard), items)
}

// pause waits before the next try of a settle. It returns early if the shard's health wakes it, and
// returns false if the process stops.
func (l *shardQueue) pause(wait time.Duration, stop <-chan struct{}) bool {
	select {
	case <-l.health.wakes():
	case <-time.After(wait):
	case <-stop:
		return false
	}
	return true
}

// endUnsettled ends attempts whose settle failed until the process ends.
func (a *attempts) endUnsettled(list []finished) {
	a.d.o.Logger.Error("settle failed at shutdown, the attempts will be repeated",
		zap.String("route", a.r.Name), zap.Int("notices", len(list)))
	for range list {
		a.d.wg.Done()
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
func (a *attempts) refused(list []finished, done []store.Settled) ([]finished, []store.Settled) {
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

		e.Settlement = End(a.r, &e.Claim, e.result, notice.Attempt{At: e.at, Duration: e.took}, e.waits)
		a.shards.at(e.Claim.Shard).settles.Add(e)
	}

	return rest, settled
}

// settleInFlight removes settled notices from the table of notices in flight. It returns the attempts that have
// ended, with the replies to their settles.
func (a *attempts) settleInFlight(list []finished, done []store.Settled) ([]finished, []store.Settled) {
	var again []finished
	var begin []job
	kept := 0
	for i := range list {
		// This process has claimed the notice again during the attempt.
		if next := a.inFlight.settled(&list[i].Claim); next != nil {
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

	closed := len(begin) > 0 && a.queue.isClosed()
	for _, j := range begin {
		if j.claim != nil {
			a.begin(j, closed)
		} else { // the running attempt has its own slot
			a.queue.freeSlots(freed{slots: 1, running: 1, swept: j.trigger.swept(1)})
		}
	}

	for _, e := range again {
		a.shards.at(e.Claim.Shard).settles.Add(e)
	}

	return list[:kept], done[:kept]
}

// settled frees the slots of settled attempts, and logs and counts them. It claims the notices that waited for
// these, without waiting for their wake message.
func (a *attempts) settled(list []finished, done []store.Settled) {
	f := freed{running: len(list)}
	for i := range list {
		if list[i].slot {
			f.slots++
			f.swept += list[i].trigger.swept(1)
		}
	}

	a.gate.rememberAll(list, done)
	a.queue.freeSlots(f)
	if len(done) > 0 && a.r.Order != route.OrderNone {
		a.queue.woke(list[0].Claim.Shard, done[0].Woke)
	}

	for i := range list {
		if list[i].pushes && !done[i].Stale {
			a.observe(&list[i])
		}

		if !done[i].Stale {
			a.gate.answered(&list[i])
		}

		list[i].endSpan(a.r)
		a.d.log.record(&list[i], a.r, done[i])
		a.d.wg.Done()
	}
}
