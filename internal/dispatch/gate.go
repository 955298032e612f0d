package dispatch

import (
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"notifier/internal/notice"
	"notifier/internal/receivers"
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
	// waitingEvery is how often the hosts of remembered notices are checked for slots that were
	// freed without a call here.
	waitingEvery = 250 * time.Millisecond
	// A notice that waits for a slot of its host is postponed by leastFallback plus one and a half times the expected
	// wait, at most by mostFallback. If a slot becomes free sooner, this instance claims it then.
	leastFallback = 2 * time.Second
	mostFallback  = 30 * time.Second
)

// gate decides whether an attempt of one route may call its receiver now: the receiver is not paused, and its host has a free
// slot that no other notice waits for. It remembers the notices that wait for a slot of their host, and records the answers
// of receivers. It has its own lock: see readyQueue for the order of locks.
type gate struct {
	r         *route.Route
	hosts     Hosts // the handler, if it limits calls to hosts; otherwise nil
	holds     Holds
	tracker   *receivers.Tracker
	rules     *receivers.Rules
	shortages *shortages
	queue     waker

	mu        sync.Mutex
	waiting   waiting
	postponed postponed
	closed    bool // nothing is remembered any more
}

func newGate(d *Dispatcher, r *route.Route, queue waker) *gate {
	g := &gate{r: r, holds: d.o.Holds, tracker: d.o.Health, rules: d.o.Rules, shortages: d.shortages, queue: queue, waiting: newWaiting()}
	g.hosts, _ = d.o.Handler.(Hosts)
	return g
}

// close forgets the notices that wait.
func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	g.waiting.drop()
}

// held returns the pause that holds the claimed notice of j at a time of Redis's clock, and when the notice is claimed again.
// ok is false if its receiver is not paused, or if no call follows.
func (g *gate) held(j *job, now time.Time) (pause string, until time.Time, ok bool) {
	c := j.claim
	if g.holds == nil || c.AwaitsReport || c.Raw != nil || c.Expired(now) {
		return "", time.Time{}, false
	}

	n := c.Notice
	if c.Lapses > 0 { // interrupted attempts, which are counted later: a probe is not made again
		counted := *n
		counted.AttemptsMade += c.Lapses
		n = &counted
	}

	return g.holds.Held(g.r, n, now)
}

// answered records the answer of the receiver to a settled attempt.
func (g *gate) answered(e *finished) {
	e.observeReceiver(g.tracker, g.r)
	e.judge(g.rules, g.r)
}

// claim removes up to n notices of one open partition whose hosts have free slots, for a claim call by key. total takes their
// slots of the total, and returns how many it got. The caller holds the lock of readyQueue, for open.
func (g *gate) claim(n int, open func(shard int) bool, total func(n int) int) (list []*waiter, shard int) {
	if g.waiting.n.Load() == 0 {
		return nil, 0
	}

	g.mu.Lock()
	defer g.mu.Unlock()
	list, shard = g.waiting.take(n, open, g.roomAt)
	got := 0
	if len(list) > 0 {
		got = total(len(list))
	}

	for _, x := range list[got:] {
		g.waiting.host(x.host).claiming[x.class]--
		g.waiting.add(x)
	}

	for _, x := range list[:got] {
		g.postponed.remove(x.until, notice.HeldBusy, x.host)
	}

	return list[:got], shard
}

// roomAt returns how many calls to a host can start now.
func (g *gate) roomAt(host string) int {
	n, _ := g.hosts.Room(g.r, host)
	return n
}

// arrived records that the handler of a claim starts, or that none will.
func (g *gate) arrived(j *job) {
	if j.waiter == nil {
		return
	}

	g.mu.Lock()
	g.waiting.arrived(j.waiter)
	g.mu.Unlock()
	j.waiter = nil
}

// yields returns the host of a claim that has not waited if its free slots are for waiters that go before it; otherwise "".
// It costs nothing while no notice of the route waits.
func (g *gate) yields(j *job) string {
	if g.hosts == nil || j.waiter != nil || g.waiting.n.Load() == 0 {
		return ""
	}

	host := g.hosts.Host(g.r, j.claim.Notice)
	g.mu.Lock()
	defer g.mu.Unlock()
	if h := g.waiting.hosts[host]; h != nil {
		// Without room, the handler finds out why.
		if room := g.roomAt(host); room > 0 && room <= h.before(j.claim.Class()) {
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
// others, for which no handler starts, have room again.
func (g *gate) missed(waiters map[string]*waiter, won []store.Claim, had []int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	begins := map[string]bool{}
	for i := range won {
		g.waiting.remove(won[i].Key)
		if len(waiters) > 0 && !slices.Contains(had, i) {
			begins[won[i].Key] = true
		}
	}

	for key, x := range waiters {
		if !begins[key] {
			g.waiting.arrived(x)
		}
	}
}

// remembers reports whether a postponed notice will be claimed when a slot of its host is freed.
func (g *gate) remembers(e *finished) bool {
	return g.hosts != nil && e.result.Outcome == notice.OutcomeDeferred && e.result.Reason == notice.ReasonBusy && e.result.Host != ""
}

// postpone sets the end of the postponement of a notice that this instance remembers.
func (g *gate) postpone(e *finished) {
	_, each := g.hosts.Room(g.r, e.result.Host)
	g.mu.Lock()
	defer g.mu.Unlock()
	h := g.waiting.host(e.result.Host)
	turn := leastFallback + each*time.Duration(3*(len(h.waiters)+h.coming.all())/2)
	if turn >= mostFallback {
		turn = mostFallback - rand.N(mostFallback/5)
	}

	e.result.After = max(e.result.After, turn)
	h.coming[e.class]++
}

// rememberAll counts the postponed notices of settled attempts, and remembers them if they wait for
// slots of their hosts.
func (g *gate) rememberAll(list []finished, done []store.Settled) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	g.countPostponed(list, done, now)
	if g.hosts == nil {
		return
	}

	for i := range list {
		if g.remembers(&list[i]) {
			g.remembered(&list[i], done[i], now)
		}
	}
}

// remembered adds a settled postponement to the waiting notices. The caller holds mu.
func (g *gate) remembered(e *finished, s store.Settled, now time.Time) {
	h := g.waiting.host(e.result.Host)
	h.coming[e.class]--
	if !g.closed && !s.Stale && s.Score != "" {
		g.waiting.add(&waiter{key: e.Claim.Key, shard: e.Claim.Shard, score: s.Score, class: e.class, due: e.Claim.Due,
			until: now.Add(e.After), host: e.result.Host})
		g.checkWaiting()
	}

	g.waiting.tidy(e.result.Host)
}

// checkWaiting starts the timer that checks all hosts. The caller holds mu.
func (g *gate) checkWaiting() {
	if g.waiting.armed || g.closed {
		return
	}

	g.waiting.armed = true
	time.AfterFunc(waitingEvery, func() {
		if g.wakeAll() {
			g.queue.wake()
		}
	})
}

// wakeAll queues all hosts for a check, and reports whether notices wait for any.
func (g *gate) wakeAll() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.waiting.armed = false; len(g.waiting.byKey) == 0 {
		return false
	}

	for host := range g.waiting.hosts {
		g.waiting.wake(host)
	}

	g.checkWaiting()
	return true
}

// freedAt queues a host for a check after one of its calls has ended.
func (g *gate) freedAt(host string) {
	if host == "" || g.hosts == nil {
		return
	}

	g.mu.Lock()
	g.waiting.wake(host)
	g.mu.Unlock()
}

// countPostponed counts the notices of settled attempts that were postponed. The caller holds mu.
func (g *gate) countPostponed(list []finished, done []store.Settled, now time.Time) {
	if g.closed {
		return
	}
	for i := range list {
		if held, ok := list[i].waitsFor(); ok && !done[i].Stale && done[i].Refused == "" {
			g.postponed.add(now.Add(list[i].After), held, list[i].result.Host)
		}
	}
}

// count adds the postponed notices to w.
func (g *gate) count(w *Waiting) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.postponed.prune(time.Now())
	for x, n := range g.postponed.n {
		w.By[x.held] += n
		if x.host != "" {
			w.Hosts[x.host] += n
		}
	}
}
