package callback

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/sony/gobreaker/v2"

	"notifier/internal/notice"
	"notifier/internal/pace"
	"notifier/internal/route"
	"notifier/internal/transport"
)

// Limits and delays.
const (
	breakerFailures = 10              // consecutive slow failures that open a host's breaker
	breakerOpen     = 5 * time.Second // first time that the breaker stays open, doubled after each failed try, …
	breakerMost     = maxAfter        // … up to this, so that tries of a hundred dead hosts do not fill a route
	slowFailure     = time.Second     // a failure that took this long counts for the breaker
	minAfter        = 250 * time.Millisecond
	maxAfter        = 30 * time.Second
	maxReturns      = 1000             // deferred notices that become due for one host in one second, at most
	ringSeconds     = 256              // seconds ahead over which more of them are spread
	maxTurn         = 4 * time.Minute  // longest delay of a notice deferred for the rate
	handEvery       = time.Second      // minimal time between two notices handed over for a host's next try
	hostIdle        = 10 * time.Minute // a host without calls is forgotten after this
)

// limits are the limits of one route: its rate, and for each destination slots, pace and breaker.
type limits struct {
	prefix string
	// maxSharers is the result of [Handler.MaxInstances], and sharers the view reduced to those instances.
	maxSharers int
	sharers    View
	max        int // slots per destination, of all instances or of each (peers.Shared); 0 = unlimited
	// doubtful is the maximum number of running calls to hosts that did not answer last time or were never
	// called; 0 = unlimited. The route's other slots stay free for hosts that answer, however many hang.
	doubtful int
	pacer    *pacer
	fleet    peers
	now      func() time.Time
	own      func(prefix, host string) (rate float64, concurrency int) // see Options.HostLimits; nil = none
	changed  func(host string, from, to gobreaker.State, remote bool)

	mu           sync.Mutex
	hosts        *hostTable
	held         [hung + 1]int // running calls by the health of their host when they began
	doubtfulPace tempo         // of all doubtful hosts together
	swept        time.Time
	remote       bool // a message from another instance is changing a breaker
}

// health is the last known behaviour of a host.
type health int

const (
	unknown health = iota // not called yet, or not recently
	answers
	hung // the last call to it failed slowly
)

// onBreaker is called when a destination's breaker changes. remote means that a message from another instance
// caused the change.
type onBreaker func(host string, from, to gobreaker.State, remote bool)

func newLimits(r *route.Route, maxSharers int, fleet peers, now func() time.Time, changed onBreaker) *limits {
	l := &limits{prefix: r.Prefix, maxSharers: maxSharers, max: r.HostConcurrency, fleet: fleet, now: now, own: noLimits, changed: changed,
		hosts: newTable(), swept: now(),
		pacer: newPacer(r)}
	// A fixed target is one host: no other host needs free slots.
	if r.Target.Kind == route.KindNotice && r.Concurrency > 1 {
		l.doubtful = r.Concurrency / 2
	}

	return l
}

// host is the state of one destination.
type host struct {
	breaker *gobreaker.TwoStepCircuitBreaker[struct{}]

	// All below is guarded by limits.mu.
	name                  string
	in                    *hostList // the list of the table that holds it; nil during a call
	transport.Links[host]           // in that list
	tempo
	tally  tally
	used   time.Time
	health health
	// share is this instance's part of the host's slots, in the view whose number is view − 1; view 0 = not
	// computed.
	view    uint64
	share   int
	divided hostLimits // from which share was computed
	paced   *pacer     // of the rate that an operator has set for the host; nil = none
	// allowed is the number of slots while the host is slowed: less than its share after answers of 429 or
	// 503, growing by one with every round of good answers. Zero = not slowed.
	allowed   float64
	slowdowns int       // consecutive answers of 429 or 503
	slowed    time.Time // when its slots were last halved
	trips     int       // failed tries since the breaker opened
	until     time.Time // no call is allowed before this time
	// answered is the time of the last answer; zero = never. failing is the start of the first call of the
	// current series of slow failures; zero = none.
	answered, failing time.Time
	waited            time.Time // when a notice was last deferred because all slots were taken
	handed            time.Time // when a notice was last handed to the instance that makes the next try
	// own means that failed calls of this instance opened the breaker, not only messages of others.
	own bool
	// trying means that the one call that an open breaker allows is running.
	trying bool
	// peers are the instances that the host answers although it fails here, each with the time of
	// its last message.
	peers map[string]time.Time
}

// tempo measures how fast calls to one or several hosts complete.
type tempo struct {
	inflight int
	latency  time.Duration // running mean of the duration
	moved    time.Time     // when a call last ended, or began while none was running
	refused  counter
	returns  *ring // nil until many are deferred
}

// ring counts the deferred notices that become due in each of the coming seconds.
type ring struct {
	from  int64 // second of the oldest count that is not past
	count [ringSeconds]int32
}

// book reserves a place in the second after which the notice was to return, or in a later one with room, and
// returns the delay.
func (r *ring) book(now time.Time, after time.Duration) time.Duration {
	s := now.Unix()
	for ; r.from < s && s-r.from < ringSeconds; r.from++ {
		r.count[r.from%ringSeconds] = 0
	}

	if r.from < s {
		*r = ring{from: s}
	}

	at := now.Add(after).Unix()
	for sec := at; sec < s+ringSeconds; sec++ {
		if n := &r.count[sec%ringSeconds]; *n < maxReturns {
			*n++
			if sec == at {
				return after
			}

			return time.Unix(sec, 0).Add(rand.N(time.Second)).Sub(now)
		}
	}

	return (ringSeconds/2 + rand.N(time.Duration(ringSeconds/2))) * time.Second
}

func (p *tempo) begin(now time.Time) {
	if p.inflight++; p.inflight == 1 {
		p.moved = now
	}
}

func (p *tempo) end(took time.Duration, now time.Time) {
	p.inflight--
	p.moved = now
	took = max(0, took) // negative if the call was given up while it waited for its turn
	if p.latency == 0 {
		p.latency = took
	}

	p.latency += (took - p.latency) / 4
}

// errSlow is the error that counts for a breaker.
var errSlow = errors.New("slow failure")

// pass is the permission for one exchange. end returns it.
type pass struct {
	l      *limits
	h      *host
	class  notice.Class
	done   func(error)
	at     time.Time
	wait   time.Duration // delay before the exchange, for the route's rate
	health health        // of the host when the call began
	trial  bool          // the one allowed call to a host with an open breaker
}

// enter returns the permission for one call to a host, or a deferral of the notice.
func (l *limits) enter(name string, c notice.Class) (*pass, *deferral) {
	now := l.now()
	l.mu.Lock()
	defer l.mu.Unlock()

	l.sweep(now)
	h := l.hosts.find(name, func() *host { return l.newHost(name) })
	defer l.hosts.put(h)

	h.used = now

	if theirs := l.handOver(h, now); theirs != nil {
		return nil, theirs
	}

	limit, mine := l.slots(h)
	if !mine {
		h.waited = now
		x := l.limitsOf(name)
		return nil, &deferral{h.postpone(now, 1, notice.ReasonBusy, 0,
			fmt.Sprintf("all %d slots of %s belong to other instances", x.slots, name)), l.slotHolders(name, x), "", nil}
	}

	if limit > 0 && h.inflight >= limit {
		h.waited = now
		refused := put(h.postpone(now, limit, notice.ReasonBusy, 0, fmt.Sprintf("all %d slots of %s are taken", limit, name)))
		refused.Host = name
		return nil, refused
	}

	was := h.health
	if was == answers && h.inflight > 0 && now.Sub(h.moved) >= slowFailure {
		was = unknown // it did answer, but none of its running calls has ended for a while
	}

	if !l.hasRoom(was) {
		return nil, put(l.doubtfulPace.postpone(now, l.doubtful, notice.ReasonBusy, 0,
			fmt.Sprintf("%d calls to hosts that do not answer are running; the other slots are kept for hosts that answer", l.doubtful)))
	}

	done, refused := l.allow(h, now)
	if refused != nil {
		return nil, refused
	}

	wait, refused := l.pace(h, now, c)
	if refused != nil {
		done(errExcluded)
		return nil, refused
	}

	h.begin(now)
	l.held[was]++
	if was != answers {
		l.doubtfulPace.begin(now)
	}

	p := &pass{l: l, h: h, class: c, done: done, at: now.Add(wait), wait: wait, health: was,
		trial: h.breaker.State() != gobreaker.StateClosed}
	h.trying = h.trying || p.trial
	return p, nil
}

// allow returns the done function of the host's breaker, or a deferral while the breaker is open.
func (l *limits) allow(h *host, now time.Time) (done func(error), refused *deferral) {
	err := gobreaker.ErrOpenState
	var theirs View
	if !now.Before(h.until) {
		if theirs = l.others(h, now); theirs == nil || len(l.reachedBy(h, now)) > 0 {
			done, err = h.breaker.Allow()
			theirs = nil
		} else if now.Sub(h.handed) < handEvery {
			theirs = nil // it has got one recently
		} else {
			h.handed = now
		}
	}

	if err == nil {
		return done, nil
	}

	res := h.postpone(now, 1, notice.ReasonBreaker, h.until.Sub(now),
		fmt.Sprintf("%s failed slowly %d times in a row; one try at a time until it answers", h.name, breakerFailures))
	res.Host = h.name
	return nil, &deferral{res, theirs, l.tryName(h), nil}
}

// put returns a deferral of a notice that no other instance could deliver sooner.
func put(res notice.Result) *deferral { return &deferral{Result: res} }

func (l *limits) newHost(name string) *host { return &host{breaker: l.newBreaker(name)} }

func (l *limits) newBreaker(name string) *gobreaker.TwoStepCircuitBreaker[struct{}] {
	return gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Name: name, MaxRequests: 1, Timeout: breakerOpen,
		ReadyToTrip:   func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= breakerFailures },
		OnStateChange: func(name string, from, to gobreaker.State) { l.changed(name, from, to, l.remote) },
		IsExcluded:    func(err error) bool { return errors.Is(err, errExcluded) },
	})
}

// hasRoom reports whether a call to a host of that health may begin. Hosts that hang may take half of the
// calls allowed to doubtful hosts, so that unknown hosts get the rest.
func (l *limits) hasRoom(s health) bool {
	if l.doubtful == 0 || s == answers {
		return true
	}
	if s == hung && l.held[hung] >= max(1, l.doubtful/2) {
		return false
	}

	return l.held[unknown]+l.held[hung] < l.doubtful
}

var errExcluded = errors.New("no exchange")

// await waits for the pass's turn at the route's rate, and reports whether it came before ctx ended.
func (p *pass) await(ctx context.Context) bool {
	return p.wait <= 0 || pace.Wait(ctx, p.wait)
}

// end returns the permission with the result of the exchange, and updates slots, pace and breaker of the
// host.
func (p *pass) end(res notice.Result, timedOut bool) {
	now := p.l.now()
	p.l.mu.Lock()
	defer p.l.mu.Unlock()

	h := p.h
	h.used = now
	defer p.l.hosts.put(h)

	took := now.Sub(p.at)
	if res.Reason == notice.ReasonInterrupted || res.Reason == notice.ReasonLocal {
		took = h.latency // unchanged: the receiver's time is not known
	}

	h.tempo.end(took, now)
	p.l.held[p.health]--
	if p.health != answers {
		p.l.doubtfulPace.end(took, now)
	}

	p.l.adapt(h, res, p.at, now)
	err := h.learn(res, timedOut, p.at, now)
	if !errors.Is(err, errExcluded) {
		h.tally.add(now, res.Outcome != notice.OutcomeDelivered)
	}

	before := h.breaker.State()
	h.trying = h.trying && !p.trial
	p.done(err)
	p.l.breakerChanged(h, before, now)
}

// learn updates the host's health after a call that began at that time, and returns the error that its breaker gets.
func (h *host) learn(res notice.Result, timedOut bool, began, now time.Time) error {
	switch {
	case saysNothing(res.Reason):
		return errExcluded
	case timedOut || res.Outcome == notice.OutcomeRetry && now.Sub(began) >= slowFailure:
		h.health = hung
		if h.failing.IsZero() || began.Before(h.failing) {
			h.failing = began
		}

		return errSlow
	}

	h.health = answers
	h.answered, h.failing = now, time.Time{}
	return nil
}

// breakerChanged sets the time of the next try after a call from here has opened the host's breaker, and tells the other
// instances if it has opened or closed.
func (l *limits) breakerChanged(h *host, before gobreaker.State, now time.Time) {
	after := h.breaker.State()
	switch {
	case after == before:
	case after == gobreaker.StateOpen:
		h.trips++
		h.own = true
		if before == gobreaker.StateClosed {
			h.trips = 0
		}

		h.until = now.Add(min(breakerOpen<<min(h.trips, 8), breakerMost))
		l.tellOpen(h, now)
	case after == gobreaker.StateClosed:
		h.own, h.peers = false, nil
		l.tell(wordClosed, h.name)
	}
}

// saysNothing reports whether a call that ended for this reason is ignored by the host's breaker.
func saysNothing(r notice.Reason) bool {
	switch r {
	case notice.ReasonShutdown, notice.ReasonBlocked, notice.ReasonInvalid, notice.ReasonInterrupted, notice.ReasonToken,
		notice.ReasonLocal, notice.ReasonRate:
		return true
	}
	return false
}

// limit returns the number of slots that the host has now; 0 = unlimited.
func (h *host) limit(most int) int {
	if h.allowed == 0 {
		return most
	}

	n := max(1, int(h.allowed))
	if most > 0 {
		n = min(n, most)
	}

	return n
}

// adapt changes a host's slots after its answer to a call that began at that time.
func (l *limits) adapt(h *host, res notice.Result, began, now time.Time) {
	switch {
	case res.Status == 429 || res.Status == 503:
		h.slowdowns++
		h.slow(l.share(h), began, now)
		return
	case res.Status != 0:
		h.slowdowns = 0
	}

	if res.Outcome == notice.OutcomeDelivered && h.allowed > 0 {
		h.recover(l.share(h))
	}
}

const (
	// series is the number of consecutive answers of 429 or 503 that halve the slots.
	series = 3
	// goodForOne is the number of good answers that make up for one 429 or 503: a host that sends them less
	// often keeps its slots.
	goodForOne = 8
)

// slow reduces a host's slots after an answer of 429 or 503: by a part of one slot, or by half after a series
// of them. Calls that were in flight together halve the slots only once.
func (h *host) slow(most int, began, now time.Time) {
	if h.allowed == 0 {
		h.allowed = float64(most)
	}

	switch {
	case h.allowed == 0 && h.slowdowns < series:
		return
	case h.allowed == 0: // no limit is set: start from the calls it had
		h.allowed = float64(h.inflight + h.slowdowns)
	}

	switch {
	case h.slowdowns < series:
		h.allowed = max(1, h.allowed/2, h.allowed-goodForOne/h.allowed)
	case !began.Before(h.slowed):
		h.allowed = max(1, h.allowed/2)
		h.slowed = now
	}
}

// recover adds one slot for every round of good answers.
func (h *host) recover(most int) {
	h.allowed += 1 / h.allowed
	if most > 0 && h.allowed >= float64(most) || h.allowed >= 1<<16 {
		h.allowed = 0
	}
}

// perSecond estimates how many calls complete per second with that many slots. If no call has ended for a
// while, the time since then counts as their latency.
func (p *tempo) perSecond(now time.Time, slots int) float64 {
	latency := max(p.latency, minLatency)
	if p.inflight > 0 {
		latency = max(latency, now.Sub(p.moved))
	}

	return float64(slots) / latency.Seconds()
}

// minLatency is the assumed latency of a host without completed calls.
const minLatency = 20 * time.Millisecond

// postpone returns the result of a notice deferred for a host's limits. The delay is about as long as the
// recently refused notices need at the current pace, spread by half of it to either side.
func (p *tempo) postpone(now time.Time, slots int, r notice.Reason, atLeast time.Duration, detail string) notice.Result {
	p.refused.add(now)
	atLeast = max(atLeast, minAfter)
	// Two thirds of the room, which the spread extends to all of it. A cut-off at the maximum would make all
	// notices beyond it due at one instant.
	room := (maxAfter - atLeast) * 2 / 3
	need := min(p.refused.perSecond(now)/p.perSecond(now, slots), room.Seconds())
	after := atLeast + spread(time.Duration(need*float64(time.Second)))
	if p.returns == nil && p.refused.cur > maxReturns/4 {
		p.returns = &ring{from: now.Unix()}
	}

	if p.returns != nil {
		after = p.returns.book(now, after)
	}

	return notice.DeferredResult(r, after, detail)
}

// spread returns a random duration from 0.5 to 1.5 times d.
func spread(d time.Duration) time.Duration {
	return d/2 + rand.N(d+1)
}

// sweep forgets hosts that were not called for hostIdle.
func (l *limits) sweep(now time.Time) {
	if now.Sub(l.swept) < hostIdle/10 {
		return
	}

	l.swept = now
	l.hosts.sweep(now.Add(-hostIdle))
}

// counter measures events per second: the count of the last whole second, or of the running one if it is
// already higher.
type counter struct {
	second    int64
	cur, last float64
	// mean covers slow hosts, whose calls end less often than once a second.
	mean float64
}

func (c *counter) roll(now time.Time) {
	s := now.Unix()
	if c.second == 0 {
		c.second = s
	}

	for c.second < s {
		c.last, c.cur = c.cur, 0
		c.mean += (c.last - c.mean) / 8
		c.second++
		if s-c.second > 60 { // no event for a minute: the mean has decayed
			c.second, c.last, c.mean = s, 0, 0
		}
	}
}

func (c *counter) add(now time.Time) {
	c.roll(now)
	c.cur++
}

func (c *counter) perSecond(now time.Time) float64 {
	c.roll(now)
	return max(c.cur, c.last, c.mean)
}
