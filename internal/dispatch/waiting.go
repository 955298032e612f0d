package dispatch

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/store"
)

// Hosts is a [Handler] that limits the calls to each host. It lets dispatch claim a
// postponed notice when a slot of its host is freed.
type Hosts interface {
	// Room returns how many calls to a host can start now, and the expected time until one more
	// can.
	Room(r *route.Route, host string) (room int, each time.Duration)
	// Host returns the host that an attempt of a notice calls; "" if it calls none.
	Host(r *route.Route, n *notice.Notice) string
}

const (
	// maxWaiting bounds how many postponed notices of a route are remembered. All others
	// are claimed when their postponement ends.
	maxWaiting = 2000
	// waitingEvery is how often the hosts of remembered notices are checked for slots that were
	// freed without a call here.
	waitingEvery = 250 * time.Millisecond
	// A notice that waits for a slot of its host is postponed by leastFallback plus one and a half times the expected
	// wait, at most by mostFallback. If a slot becomes free sooner, this instance claims it then.
	leastFallback = 2 * time.Second
	mostFallback  = 30 * time.Second
)

// waiter is a notice that this instance has postponed because its host was busy.
type waiter struct {
	key   string
	shard int
	score string // as the postponement wrote it
	class notice.Class
	due   time.Time
	until time.Time // when the postponement ends
	host  string
}

// compare orders waiters of a host by class, then by due time.
func (x *waiter) compare(o *waiter) int {
	return cmp.Or(cmp.Compare(x.class, o.class), x.due.Compare(o.due))
}

// waiting holds the notices of one route that wait for slots of their hosts, without a claim. The
// queue's mutex guards it.
type waiting struct {
	byKey map[string]*waiter
	hosts map[string]*hostQueue
	ready []string      // hosts that may have free slots, in turn
	armed bool          // the timer is set that checks all hosts
	n     *atomic.Int32 // length of hosts, without the mutex
}

// byClass is a number of notices by class.
type byClass [notice.Classes]int

// before returns how many are of classes before one.
func (n *byClass) before(c notice.Class) (sum int) {
	for earlier := range c {
		sum += n[earlier]
	}

	return sum
}

func (n *byClass) all() int { return n.before(notice.Classes) }

// hostQueue holds the notices that wait for one host.
type hostQueue struct {
	waiters  []*waiter // in order of compare
	starts   int       // see notice.Next
	coming   byClass   // postponements without a settle
	claiming byClass   // waiters in running claim calls, and claims of them whose handlers have not started
	ready    bool
}

// first returns the index of the first waiter of a class or a later one.
func (h *hostQueue) first(c notice.Class) int {
	at, _ := slices.BinarySearchFunc(h.waiters, c, func(x *waiter, c notice.Class) int { return cmp.Or(cmp.Compare(x.class, c), 1) })
	return at
}

// before returns how many notices that wait go before an attempt of a class: those of earlier classes, and claims of its own class.
func (h *hostQueue) before(c notice.Class) int {
	return h.first(c) + h.coming.before(c) + h.claiming.before(c+1)
}

func newWaiting() waiting {
	return waiting{byKey: map[string]*waiter{}, hosts: map[string]*hostQueue{}, n: new(atomic.Int32)}
}

func (w *waiting) host(name string) *hostQueue {
	h := w.hosts[name]
	if h == nil {
		h = &hostQueue{}
		w.hosts[name] = h
		w.n.Add(1)
	}

	return h
}

// next returns the index of the next of the waiters that may be claimed now, -1 if there is none.
func (h *hostQueue) next(may func(x *waiter) bool) int {
	at := -1
	notice.Next(h.starts, func(c notice.Class) bool {
		for i := h.first(c); i < len(h.waiters) && h.waiters[i].class == c; i++ {
			if may(h.waiters[i]) {
				at = i
				return true
			}
		}

		return false
	})
	return at
}

// tidy deletes an empty hostQueue.
func (w *waiting) tidy(name string) {
	if h := w.hosts[name]; h != nil && len(h.waiters) == 0 && h.coming.all() == 0 && h.claiming.all() == 0 && !h.ready {
		delete(w.hosts, name)
		w.n.Add(-1)
	}
}

// add remembers a notice. If there is no room, the last waiter of the host with the most waiters is dropped, which may be the new one.
func (w *waiting) add(x *waiter) {
	w.remove(x.key)
	if len(w.byKey) >= maxWaiting {
		longest := x.host
		for name, h := range w.hosts {
			if len(h.waiters) > len(w.host(longest).waiters) {
				longest = name
			}
		}

		last := w.host(longest).waiters
		if longest == x.host && (len(last) == 0 || x.compare(last[len(last)-1]) >= 0) {
			return
		}

		w.remove(last[len(last)-1].key)
	}

	h := w.host(x.host)
	at, _ := slices.BinarySearchFunc(h.waiters, x, func(a, b *waiter) int {
		return cmp.Or(a.compare(b), -1) // after equal waiters
	})
	h.waiters = slices.Insert(h.waiters, at, x)
	w.byKey[x.key] = x
	w.wake(x.host)
}

// remove forgets a notice.
func (w *waiting) remove(key string) {
	x := w.byKey[key]
	if x == nil {
		return
	}

	delete(w.byKey, key)
	h := w.hosts[x.host]
	h.waiters = slices.DeleteFunc(h.waiters, func(o *waiter) bool { return o == x })
	w.tidy(x.host)
}

// wake queues a host for a check, if notices wait for it.
func (w *waiting) wake(host string) {
	if h := w.hosts[host]; h != nil && !h.ready && len(h.waiters) > 0 {
		h.ready = true
		w.ready = append(w.ready, host)
	}
}

// take removes up to n notices of one open partition whose hosts have room, one host after another.
func (w *waiting) take(n int, open func(shard int) bool, room func(host string) int) (list []*waiter, shard int) {
	for range len(w.ready) {
		name := w.ready[0]
		w.ready = w.ready[1:]
		h := w.hosts[name]
		h.ready = false
		left := room(name) - h.claiming.all()
		for left > 0 && len(list) < n {
			i := h.next(func(x *waiter) bool { return (len(list) == 0 || x.shard == shard) && open(x.shard) })
			if i < 0 {
				break
			}

			x := h.waiters[i]
			list, shard = append(list, x), x.shard
			delete(w.byKey, x.key)
			h.waiters = slices.Delete(h.waiters, i, i+1)
			h.starts++
			h.claiming[x.class]++
			left--
		}

		if left > 0 && len(list) > 0 {
			w.wake(name) // for other partitions, or once there are slots
		}

		w.tidy(name)
		if len(list) >= n {
			break
		}
	}
	return list, shard
}

// drop deletes all. It leaves the pointer n as it is, which is read without the mutex.
func (w *waiting) drop() {
	none := newWaiting()
	w.byKey, w.hosts, w.ready, w.armed = none.byKey, none.hosts, none.ready, none.armed
	w.n.Store(0)
}

// roomAt returns how many calls to a host can start now.
func (q *routeQueue) roomAt(host string) int {
	n, _ := q.hosts.Room(q.r, host)
	return n
}

// claimWaiting claims notices whose hosts have free slots, by key. The caller holds mu.
func (q *routeQueue) claimWaiting() bool {
	list, shard := q.waiting.take(min(q.slots.room(), maxBatch), q.isOpen, q.roomAt)
	got := q.d.total.take(&q.share, len(list))
	for _, x := range list[got:] {
		q.waiting.host(x.host).claiming[x.class]--
		q.waiting.add(x)
	}

	if got == 0 {
		return false
	}

	c := call{kind: kindPostponed, trigger: triggerSweep, shard: shard, token: q.d.token(), n: got, begun: time.Now(),
		waiters: map[string]*waiter{}}
	for _, x := range list[:got] {
		q.postponed.remove(x.until, notice.HeldBusy, x.host)
		c.keys = append(c.keys, x.key)
		c.waiters[x.key] = x
	}

	c.counted = true

	q.begin(c)
	return true
}

// postponed are the notices of a kindPostponed call.
func (c *call) postponed() []store.Postponed {
	list := make([]store.Postponed, len(c.keys))
	for i, k := range c.keys {
		list[i] = store.Postponed{Key: k, Score: c.waiters[k].score}
	}

	return list
}

// arrived records that the handler of a claim starts, or that none will.
func (q *routeQueue) arrived(j *job) {
	if j.waiter == nil {
		return
	}

	q.mu.Lock()
	q.waiting.arrived(j.waiter)
	q.mu.Unlock()
	j.waiter = nil
}

func (w *waiting) arrived(x *waiter) {
	if h := w.hosts[x.host]; h != nil {
		h.claiming[x.class]--
		w.wake(x.host)
		w.tidy(x.host)
	}
}

// yields returns the host of a claim that has not waited if its free slots are for waiters that go before it; otherwise "".
// It costs nothing while no notice of the route waits.
func (q *routeQueue) yields(j *job) string {
	if q.hosts == nil || j.waiter != nil || q.waiting.n.Load() == 0 {
		return ""
	}

	host := q.hosts.Host(q.r, j.claim.Notice)
	q.mu.Lock()
	defer q.mu.Unlock()
	if h := q.waiting.hosts[host]; h != nil {
		// Without room, the handler finds out why.
		if room := q.roomAt(host); room > 0 && room <= h.before(j.claim.Class()) {
			return host
		}
	}

	return ""
}

// yielded is the result of an attempt that leaves its host's slots to others.
func yielded(host string) notice.Result {
	r := notice.DeferredResult(notice.ReasonBusy, 0, "the free slots of "+host+" are for notices that wait for them")
	r.Host, r.Unsent = host, true
	return r
}

// missed processes the reply to a claim call. Won notices no longer wait, and the hosts of the
// others, for which no handler starts, have room again. The caller holds mu.
func (q *routeQueue) missed(waiters map[string]*waiter, won []store.Claim, had []int) {
	begins := map[string]bool{}
	for i := range won {
		q.waiting.remove(won[i].Key)
		if len(waiters) > 0 && !slices.Contains(had, i) {
			begins[won[i].Key] = true
		}
	}

	for key, x := range waiters {
		if !begins[key] {
			q.waiting.arrived(x)
		}
	}
}

// remembers reports whether a postponed notice will be claimed when a slot of its host is freed.
func (q *routeQueue) remembers(e *finished) bool {
	return q.hosts != nil && e.result.Outcome == notice.OutcomeDeferred && e.result.Reason == notice.ReasonBusy && e.result.Host != ""
}

// postpone sets the end of the postponement of a notice that this instance remembers.
func (q *routeQueue) postpone(e *finished) {
	_, each := q.hosts.Room(q.r, e.result.Host)
	q.mu.Lock()
	defer q.mu.Unlock()
	h := q.waiting.host(e.result.Host)
	turn := leastFallback + each*time.Duration(3*(len(h.waiters)+h.coming.all())/2)
	if turn >= mostFallback {
		turn = mostFallback - rand.N(mostFallback/5)
	}

	e.result.After = max(e.result.After, turn)
	h.coming[e.class]++
}

// rememberAll counts the postponed notices of settled attempts, and remembers those that wait for
// slots of their hosts.
func (q *routeQueue) rememberAll(list []finished, done []store.Settled) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	q.countPostponed(list, done, now)
	if q.hosts == nil {
		return
	}

	for i := range list {
		if q.remembers(&list[i]) {
			q.remembered(&list[i], done[i], now)
		}
	}
}

// remembered adds a settled postponement to the waiting notices. The caller holds mu.
func (q *routeQueue) remembered(e *finished, s store.Settled, now time.Time) {
	h := q.waiting.host(e.result.Host)
	h.coming[e.class]--
	if !q.closed && !s.Stale && s.Score != "" {
		q.waiting.add(&waiter{key: e.Claim.Key, shard: e.Claim.Shard, score: s.Score, class: e.class, due: e.Claim.Due,
			until: now.Add(e.After), host: e.result.Host})
		q.checkWaiting()
	}

	q.waiting.tidy(e.result.Host)
}

// checkWaiting starts the timer that checks all hosts. The caller holds mu.
func (q *routeQueue) checkWaiting() {
	if q.waiting.armed || q.closed {
		return
	}

	q.waiting.armed = true
	time.AfterFunc(waitingEvery, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		if q.waiting.armed = false; len(q.waiting.byKey) == 0 {
			return
		}

		for host := range q.waiting.hosts {
			q.waiting.wake(host)
		}

		q.checkWaiting()
		q.claimMore()
	})
}

// freedAt queues a host for a check after one of its calls has ended.
func (q *routeQueue) freedAt(host string) {
	if host == "" || q.hosts == nil {
		return
	}

	q.mu.Lock()
	q.waiting.wake(host)
	q.mu.Unlock()
}
