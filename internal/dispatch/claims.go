package dispatch

import (
	"cmp"
	"context"
	"slices"
	"time"

	"go.uber.org/zap"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/store"
	"notifier/internal/wire"
)

// claimTimeout bounds one claim call.
const claimTimeout = 5 * time.Second

// call is one claim call to Redis.
type call struct {
	kind    kind
	trigger trigger
	shard   int
	token   string
	n       int                // number of slots taken
	keys    []string           // of hints or waiters
	waiters map[string]*waiter // by key, of a kindPostponed call
	counted bool               // its waiters are in claiming of their hosts
	want    want               // of a sweep, as are grace, newest and from
	grace   time.Duration
	newest  bool
	from    string
	over    takeover // of a reclaim
	begun   time.Time
	sent    time.Time // later than begun for a retry
	asked   int       // number of notices requested, unless keys are given
	rounds  int       // number of recovery calls so far; 0 = the original call
	found   int       // claims recovered so far by this recovery call
	again   bool      // retry of a failed call
}

// kind is the Store operation of a call.
type kind uint8

const (
	kindKeys      kind = iota // notices named by hints
	kindSweep                 // due notices
	kindTakeover              // claims of a dead instance
	kindPostponed             // postponed notices whose hosts have free slots
	kindRecover               // claims of a call whose reply was lost
)

// sorts reports whether there are fewer slots than keys, so that first attempts are claimed before others.
func (c *call) sorts() bool { return c.kind == kindKeys && len(c.keys) > c.n }

// finds reports whether the call may return claims of an earlier call.
func (c *call) finds() bool { return c.again || c.rounds > 0 }

// postponed are the notices of a kindPostponed call.
func (c *call) postponed() []store.Postponed {
	list := make([]store.Postponed, len(c.keys))
	for i, k := range c.keys {
		list[i] = store.Postponed{Key: k, Score: c.waiters[k].score}
	}

	return list
}

func partition(r *route.Route, shard int) keys.Partition {
	return keys.Partition{Prefix: r.Prefix, Shard: shard}
}

// send sends the call to the Store.
func (c *claimCall) send(ctx context.Context) (store.Claimed, error) {
	s, p, lease := c.q.d.o.Store, partition(c.q.r, c.shard), store.Lease{Token: c.token, For: c.q.r.Lease()}
	switch c.kind {
	case kindSweep:
		return s.Sweep(ctx, p, lease, store.SweepOptions{Grace: c.grace, Limit: c.n, Newest: c.newest, From: c.from})
	case kindTakeover:
		return s.TakeOver(ctx, p, lease, store.TakeOverOptions{Holder: c.over.holder, Longest: c.q.r.Lease(), Limit: c.n, From: c.over.from})
	case kindPostponed:
		return s.ClaimPostponed(ctx, p, lease, c.postponed())
	case kindRecover:
		return s.Recover(ctx, p, lease, c.n, time.Since(c.begun))
	}

	if c.sorts() {
		return s.Sweep(ctx, p, lease, store.SweepOptions{Keys: c.keys, Limit: c.n})
	}

	return s.ClaimKeys(ctx, p, lease, c.keys)
}

// slotsHeld is how long a claim call may hold its slots. Otherwise a call to a node that hangs
// would withhold them for seconds from shards on healthy nodes.
const slotsHeld = 100 * time.Millisecond

// claimCall is a claim call that was sent: it decides what its reply, or its failure, leaves to do. The lock of readyQueue
// guards lent and replied.
type claimCall struct {
	call
	q             *readyQueue
	lent, replied bool
}

// lend frees the slots of a call whose reply is late. No other call is sent for its shard until the
// reply, so that few calls wait for a node that hangs.
func (c *claimCall) lend() {
	c.q.mu.Lock()
	if c.replied {
		c.q.mu.Unlock()
		return
	}

	c.lent = true
	c.q.shards.at(c.shard).stuck++
	c.q.plan.slots.answered(c.trigger, c.n)
	c.q.mu.Unlock()
	c.q.freeSlots(freed{slots: c.n, running: c.n, swept: c.trigger.swept(c.n)})
}

// run sends the call and starts the attempts of the claimed notices.
func (c *claimCall) run() {
	ctx, cancel := context.WithTimeout(c.q.d.work, claimTimeout)
	c.sent = time.Now()
	if len(c.q.shards.all()) > 1 {
		defer time.AfterFunc(slotsHeld, c.lend).Stop()
	}

	claimed, err := c.send(ctx)
	cancel()
	if len(claimed.Rules) > 0 && c.q.d.o.Redirect != nil {
		c.q.d.o.Redirect(&claimed)
	}

	// The time when the lease ends at the earliest, by this process's clock.
	j := job{attempts: c.q.attempts, now: claimed.Now, at: time.Now(), ends: c.sent.Add(c.q.r.Lease()), trigger: c.trigger}

	r := c.record(&claimed, j, err)

	// Start the attempts first: each is late already.
	c.start(claimed.Won, j, r)
	c.q.freeSlots(freed{slots: r.idle, running: r.idle, swept: c.trigger.swept(r.idle)})
	if err == nil {
		c.report(&claimed, j.at)
	} else if c.q.d.work.Err() == nil {
		r.health.claims.Report(err, zap.String("route", c.q.r.Name), zap.Int("shard", c.shard))
	}
}

// recorded is the state of a readyQueue after the reply to a claim call.
type recorded struct {
	waiters map[string]*waiter // of the call, whose handlers may start
	had     []int              // indexes of claimed notices that were in flight already
	begin   int                // number of attempts that may start
	idle    int                // number of slots that the call does not need
	closed  bool               // the queue starts no attempt
	health  *health            // of the shard; nil after a success
}

// record records the reply to a claim call, or its error.
func (c *claimCall) record(claimed *store.Claimed, j job, err error) (r recorded) {
	c.q.mu.Lock()
	defer c.q.mu.Unlock()
	c.replied = true
	r.closed = c.q.closed
	if c.counted {
		r.waiters, c.counted = c.waiters, false
	}

	if err != nil {
		r.health = c.failed(err)
	} else {
		c.answered(*claimed)
	}

	c.q.plan.hints.claimed(claimed.Won)
	r.had, r.idle = c.q.inFlight.add(claimed.Won, j)
	c.q.gate.missed(r.waiters, claimed.Won, r.had)
	if c.finds() {
		c.q.inFlight.endFinds()
	}

	won := len(claimed.Won)
	r.begin = won - len(r.had)
	if c.lent {
		c.q.shards.at(c.shard).stuck--
		r.begin, r.idle = c.q.plan.regain(c.trigger, len(r.had)-r.idle, r.begin), 0
		return r
	}

	c.q.plan.slots.answered(c.trigger, c.n)
	r.idle += c.n - won
	return r
}

// start starts the attempts of claimed notices, and releases those for which there is no slot.
func (c *claimCall) start(won []store.Claim, j job, r recorded) {
	begin := r.begin
	for i := range won {
		if len(r.had) > 0 && slices.Contains(r.had, i) {
			continue
		}

		j.claim, j.waiter = &won[i], r.waiters[won[i].Key]
		if begin--; begin < 0 {
			c.q.attempts.release(j, notice.ReasonLease, false)
			continue
		}

		c.q.attempts.begin(j, r.closed)
	}
}

// report passes the result of a claim call, which came at some time, to the observers.
func (c *claimCall) report(claimed *store.Claimed, at time.Time) {
	c.hintEarly(*claimed, at)
	if c.q.r.Adopt && c.trigger != triggerEvent && len(claimed.Won) > 0 {
		c.expire(claimed.Won)
	}

	c.q.d.o.Observer.Claim(c.trigger.source(), notice.ClaimWon, len(claimed.Won))
	c.q.d.o.Observer.Claim(c.trigger.source(), notice.ClaimLost, claimed.Lost)
	c.q.d.o.Observer.Claim(c.trigger.source(), notice.ClaimStale, claimed.Stale)
	c.q.d.o.Observer.Claim(c.trigger.source(), notice.ClaimParked, claimed.Parked)
	if len(claimed.StaleKeys) > 0 && c.waiters == nil {
		c.q.d.o.Strays.Stale(c.q.r, claimed.StaleKeys)
	}
}

// failed records a call without a reply, and returns the health of its shard. The caller holds the lock of q.
func (c *claimCall) failed(err error) *health {
	l := c.q.shards.at(c.shard)
	l.delays.claimFailed(c.sent)
	c.q.plan.backlog.ask(c.shard, wantDue)
	if c.over.holder != "" && c.rounds == 0 {
		c.q.plan.remember(c.over)
	}

	again := c.call
	// A recovery call counts only if it is answered. This one may have renewed some leases, so the
	// next one starts from the beginning.
	again.rounds, again.found = max(again.rounds-1, 0), 0
	if again.sorts() { // a repeated call could claim other ones
		again.keys, again.asked = nil, again.n
	}

	// Redis may have run the call although no reply came. That is also true of its last retry,
	// which would have renewed the leases.
	if (!wire.NotSent(err) || again.again) && time.Since(again.begun) < 2*c.q.r.Lease() {
		l.unanswered.add(again)
	}

	l.health.claimFailed()
	return l.health
}

// answered records a call with a reply and requests what remains to be done. The caller holds the lock of q.
func (c *claimCall) answered(claimed store.Claimed) {
	l := c.q.shards.at(c.shard)
	l.health.claimed()
	l.delays.claimed(time.Now())
	if c.sorts() {
		if !c.q.plan.hints.putFirst(claimed.Left, c.trigger) || claimed.More {
			c.q.plan.backlog.ask(c.shard, wantDue)
		}

		return
	}

	if claimed.More {
		c.q.plan.backlog.ask(c.shard, c.want)
	}

	if c.kind == kindSweep {
		s := &c.q.plan.backlog.shards[c.shard]
		s.from = cmp.Or(claimed.Next, s.from)
	} else if over := c.over; claimed.Next != "" {
		over.from = claimed.Next
		c.q.plan.remember(over)
	}

	if claimed.More && c.keys != nil && claimed.Answers < len(c.keys) {
		// The reply was full. This call may have claimed the other keys already, if it is a retry.
		rest := c.call
		rest.keys = c.keys[claimed.Answers:]
		rest.n = len(rest.keys)
		l.unanswered.add(rest)
	}

	if c.rounds == 0 || c.q.closed {
		return
	}

	again := c.call
	if again.found += len(claimed.Won); (claimed.More || len(claimed.Won) == again.n) && again.found < again.asked {
		// There were not enough slots for all claims, or the reply was full. Continue the same recovery with the claims
		// whose leases it has not renewed.
		again.rounds--
		l.unanswered.add(again)
		return
	}

	again.found = 0
	if after, left := recovery(again); left {
		time.AfterFunc(after, func() {
			c.q.mu.Lock()
			defer c.q.mu.Unlock()
			if !c.q.closed && l.unanswered.add(again) {
				c.q.claimMore()
			}
		})
	}
}

// hintEarly normally claims the notices in claimed.Early as soon as they are due. A claim call has asked for them
// before their due time. claimed is the reply to that call, at the time of its arrival.
func (c *claimCall) hintEarly(claimed store.Claimed, at time.Time) {
	grace := time.Duration(c.q.d.grace.Load())
	for _, e := range claimed.Early {
		wait := e.At.Sub(claimed.Now)
		if wait > grace {
			continue // more than one grace early: its own expired event is still to come
		}

		// The cluster node that has sent the event may have another clock. It sends each event only once, so without
		// the repetition the sweep would claim the notice, one grace late.
		time.AfterFunc(wait-time.Since(at), func() { c.q.hint(e.Key, c.trigger) })
	}
}

// expire lets Redis delete the timers of swept notices now. Where timers are adopted, an expired
// event after the notice has been settled and deleted would look like a timer without a notice.
func (c *claimCall) expire(won []store.Claim) {
	ks := make([]string, len(won))
	for i := range won {
		ks[i] = won[i].Key
	}

	ctx, cancel := context.WithTimeout(c.q.d.work, claimTimeout)
	defer cancel()
	if _, err := c.q.d.o.Timers.Touch(ctx, ks); err != nil && c.q.d.work.Err() == nil {
		c.q.d.o.Logger.Debug("cannot expire the timers of swept notices", zap.String("route", c.q.r.Name), zap.Error(err))
	}
}
