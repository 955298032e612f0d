package dispatch

import (
	"context"
	"slices"
	"time"

	"go.uber.org/zap"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/store"
	"notifier/internal/wire"
)

// claimTimeout bounds one claim call.
const claimTimeout = 5 * time.Second

// call is one claim call.
type call struct {
	kind    kind
	trigger trigger
	shard   int
	token   string
	n       int               // slots taken for it
	keys    []string          // of hints, or of waiters
	scores  map[string]string // of waiters, by key
	hosts   map[string]string // of waiters whose handlers may begin, by key
	want    want              // of a sweep, as are grace and newest
	grace   time.Duration
	newest  bool
	over    takeover // of a take-over
	begun   time.Time
	sent    time.Time // later than begun, if it is made again
	asked   int       // what it asked for, if it named no keys
	looks   int       // which look for what an unanswered sweep has won it is; 0 = none
	found   int       // by this look, as far as slots have allowed
	again   bool      // it was made before
}

// kind says which operation of the Store a call is.
type kind uint8

const (
	kindKeys      kind = iota // the notices of hints
	kindSweep                 // due notices
	kindTakeover              // the claims of a dead instance
	kindPostponed             // notices whose hosts have free slots
	kindRecover               // claims of a call without an answer
)

// finds reports whether the call may find what one before it has claimed.
func (c *call) finds() bool { return c.again || c.looks > 0 }

func (q *routeQueue) partition(shard int) keys.Partition {
	return keys.Partition{Prefix: q.r.Prefix, Shard: shard}
}

func (q *routeQueue) lease(c call) store.Lease { return store.Lease{Token: c.token, For: q.r.Lease()} }

// send makes the call.
func (q *routeQueue) send(ctx context.Context, c call) (store.Claimed, error) {
	s, p, lease := q.d.o.Store, q.partition(c.shard), q.lease(c)
	switch c.kind {
	case kindSweep:
		return s.Sweep(ctx, p, lease, store.SweepOptions{Grace: c.grace, Limit: c.n, Newest: c.newest})
	case kindTakeover:
		return s.TakeOver(ctx, p, lease, store.TakeOverOptions{Holder: c.over.holder, Longest: q.r.Lease(), Limit: c.n, From: c.over.from})
	case kindPostponed:
		return s.ClaimPostponed(ctx, p, lease, c.postponed())
	case kindRecover:
		return s.Recover(ctx, p, lease, c.n, time.Since(c.begun))
	}
	return s.ClaimKeys(ctx, p, lease, c.keys)
}

// begin takes a call's slots and makes it. The caller holds mu.
func (q *routeQueue) begin(c call) {
	q.slots.begin(c.trigger, c.n)
	if c.finds() {
		q.inHand.look()
	}
	q.d.wg.Add(1)
	go func() {
		defer q.d.wg.Done()
		q.claim(c)
	}()
}

// slotsHeld is how long a claim call may hold its slots. One that goes to a node
// that hangs would keep them for seconds from shards whose nodes are well.
const slotsHeld = 100 * time.Millisecond

// flight is a claim call that is under way. Its queue's mutex guards it.
type flight struct{ lent, answered bool }

// lend gives the slots of a call back whose answer is late. No other call is made
// for its shard until it has an answer, so that few wait for a node that hangs.
func (q *routeQueue) lend(c call, f *flight) {
	q.mu.Lock()
	if f.answered {
		q.mu.Unlock()
		return
	}
	f.lent = true
	q.shards.at(c.shard).stuck++
	q.slots.answered(c.trigger)
	q.mu.Unlock()
	q.release(freed{slots: c.n, running: c.n, swept: c.trigger.swept(c.n)})
}

// regain takes slots for what a call has won that had lent its own: for claims
// that another attempt of the same notice waits for, next, in any case, and for as
// many of the others as there are. It says how many those are. The caller holds mu.
func (q *routeQueue) regain(t trigger, next, others int) int {
	q.d.total.force(&q.share, next)
	got := q.d.total.take(&q.share, min(others, max(q.slots.room()-next, 0)))
	q.slots.free -= next + got
	q.slots.swept += t.swept(next + got)
	q.slots.running += next + others
	return got
}

// claim makes a claim call and begins with what it has won.
func (q *routeQueue) claim(c call) {
	ctx, cancel := context.WithTimeout(q.d.work, claimTimeout)
	c.sent = time.Now()
	var f flight
	if len(q.shards.all()) > 1 {
		defer time.AfterFunc(slotsHeld, func() { q.lend(c, &f) }).Stop()
	}
	claimed, err := q.send(ctx, c)
	cancel()
	// By this process's clock; by that of Redis the lease began later.
	j := job{queue: q, now: claimed.Now, at: time.Now(), ends: c.sent.Add(q.r.Lease()), trigger: c.trigger}
	won := len(claimed.Won)

	q.mu.Lock()
	f.answered = true
	closed, first := q.closed, false
	hosts := c.hosts
	c.hosts = nil
	if err != nil {
		first = q.failed(c, err)
	} else {
		q.answered(c, claimed)
	}
	had, idle := q.inHand.add(claimed.Won, j)
	q.missed(hosts, claimed.Won, had)
	if c.finds() {
		q.inHand.looked()
	}
	begin := won - len(had)
	if f.lent {
		q.shards.at(c.shard).stuck--
		begin, idle = q.regain(c.trigger, len(had)-idle, begin), 0
	} else {
		q.slots.answered(c.trigger)
		idle += c.n - won
	}
	q.mu.Unlock()

	// Those won begin before anything else is done: each is late already.
	for i := range claimed.Won {
		if len(had) > 0 && slices.Contains(had, i) {
			continue
		}
		j.claim, j.host = &claimed.Won[i], hosts[claimed.Won[i].Key]
		if begin--; begin < 0 {
			q.giveBack(j, notice.ReasonLease, false)
			continue
		}
		q.work(j, closed)
	}
	q.release(freed{slots: idle, running: idle, swept: c.trigger.swept(idle)})
	if err != nil {
		if first && q.d.work.Err() == nil {
			q.d.o.Logger.Warn("claim failed; the notices stay due", zap.String("route", q.r.Name), zap.Int("shard", c.shard), zap.Error(err))
		}
		return
	}
	q.hintEarly(c.trigger, claimed, j.at)
	if q.r.Adopt && c.trigger != triggerEvent && won > 0 {
		q.expire(claimed.Won)
	}
	q.d.o.Observer.Claim(c.trigger.source(), notice.ClaimWon, won)
	q.d.o.Observer.Claim(c.trigger.source(), notice.ClaimLost, claimed.Lost)
	q.d.o.Observer.Claim(c.trigger.source(), notice.ClaimStale, claimed.Stale)
	if len(claimed.StaleKeys) > 0 && c.scores == nil {
		q.d.o.Strays.Stale(q.r, claimed.StaleKeys)
	}
}

// failed notes a call without an answer, and reports whether the one before it
// had succeeded. The caller holds mu.
func (q *routeQueue) failed(c call, err error) (first bool) {
	l := q.shards.at(c.shard)
	l.failedFor.begin(c.sent)
	q.backlog.ask(c.shard, wantDue)
	if c.over.holder != "" && c.looks == 0 {
		q.remember(c.over)
	}
	// A look counts when it is answered. This one may have begun some leases anew:
	// the next goes through all again.
	c.looks, c.found = max(c.looks-1, 0), 0
	// It may have been made although no answer came, and so may the last of its
	// repetitions, which began the leases anew.
	if (!wire.NotSent(err) || c.again) && time.Since(c.begun) < 2*q.r.Lease() {
		l.unanswered.add(c)
	}
	return l.health.claimFailed()
}

// answered notes a call that was answered, and what it has left. The caller
// holds mu.
func (q *routeQueue) answered(c call, claimed store.Claimed) {
	l := q.shards.at(c.shard)
	l.health.claimed()
	l.failedFor.end(time.Now())
	if claimed.More {
		q.backlog.ask(c.shard, c.want)
	}
	if c.over.from = claimed.Next; c.over.from != "" {
		q.remember(c.over)
	}
	if c.looks == 0 || q.closed {
		return
	}
	if c.found += len(claimed.Won); len(claimed.Won) == c.n && c.found < c.asked {
		// There were slots for so many only. The same look goes on, with those
		// whose leases it has not begun anew.
		c.looks--
		l.unanswered.add(c)
		return
	}
	c.found = 0
	if after, again := recovery(c); again {
		time.AfterFunc(after, func() {
			q.mu.Lock()
			defer q.mu.Unlock()
			if !q.closed && l.unanswered.add(c) {
				q.claimMore()
			}
		})
	}
}

// work begins with what was won, or gives it back where no handler is to begin
// any more. What awaited a report has no handler to run.
func (q *routeQueue) work(j job, closed bool) {
	if closed && !j.claim.AwaitsReport {
		q.giveBack(j, notice.ReasonShutdown, true)
		return
	}
	if !q.await(j) {
		q.d.start(j)
	}
}

// hintEarly repeats, when they are due, the hints that came too early; at is when
// the answer came that said so. An event is sent once: in a cluster by the node
// that has the timer, whose clock may be ahead of the one that has the notice,
// and without a repeat the notice would wait for the grace to be over. What is
// due later than that is left to the sweep and to an event of its own.
func (q *routeQueue) hintEarly(t trigger, claimed store.Claimed, at time.Time) {
	grace := time.Duration(q.d.grace.Load())
	for _, e := range claimed.Early {
		wait := e.At.Sub(claimed.Now)
		if wait > grace {
			continue
		}
		time.AfterFunc(wait-time.Since(at), func() { q.hint(e.Key, t) })
	}
}

// expire lets Redis delete the timers of swept notices now. Where timers are
// adopted, their expired events must not come when the notice has long been
// settled and forgotten: they would be taken for timers that nobody adopted.
func (q *routeQueue) expire(won []store.Claim) {
	ks := make([]string, len(won))
	for i := range won {
		ks[i] = won[i].Key
	}
	ctx, cancel := context.WithTimeout(q.d.work, claimTimeout)
	defer cancel()
	if _, err := q.d.o.Store.Touch(ctx, ks); err != nil && q.d.work.Err() == nil {
		q.d.o.Logger.Debug("timers of swept notices were not touched", zap.String("route", q.r.Name), zap.Error(err))
	}
}
