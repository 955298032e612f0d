package callback

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/sony/gobreaker/v2"

	"notifier/internal/alarm"
	"notifier/internal/notice"
	"notifier/internal/route"
)

// Numbers of the limits.
const (
	breakerFailures = 10              // slow failures in a row that open a host's breaker
	breakerOpen     = 5 * time.Second // how long it stays open at first; twice as long after each try that failed, …
	breakerMost     = maxAfter        // … up to this, so that a hundred dead hosts do not fill a route with tries
	slowFailure     = time.Second     // a failure that took this long counts for the breaker
	minAfter        = 250 * time.Millisecond
	maxAfter        = 30 * time.Second
	maxReturns      = 1000             // notices put off that come back to one host in a second, at most
	ringSeconds     = 256              // how far ahead they are lined up when there are more
	maxTurn         = 4 * time.Minute  // how far ahead those refused for the rate are
	handEvery       = time.Second      // a notice is handed to who makes a host's next try, at most
	hostIdle        = 10 * time.Minute // what is known of a host is forgotten after this
)

// limits are those of one route: its rate, and per destination slots, speed and
// breaker.
type limits struct {
	prefix string
	// few is what [Handler.Few] says, among the view that follows from it.
	few   int
	among View
	max   int // slots per destination, of all instances or of each; 0 = unlimited
	// doubtful is how many calls may be under way to hosts that did not answer last
	// time or were never called; 0 = unlimited. The rest of the route's slots is
	// there for hosts that answer, however many others hang.
	doubtful int
	pacer    *pacer
	fleet    peers
	now      func() time.Time
	changed  func(host string, from, to gobreaker.State, told bool)

	mu           sync.Mutex
	hosts        *hostTable
	held         [hung + 1]int // calls under way, by what was thought of their host when they began
	doubtfulPace pace          // of the doubtful together
	swept        time.Time
	told         bool // a breaker changes because another instance said so
}

// standing is what is thought of a host.
type standing int

const (
	unknown standing = iota // not called yet, or not for long
	answers
	hung // the last call to it failed slowly
)

// onBreaker hears of a destination's breaker changing; told: because another
// instance said so.
type onBreaker func(host string, from, to gobreaker.State, told bool)

func newLimits(r *route.Route, few int, fleet peers, now func() time.Time, changed onBreaker) *limits {
	l := &limits{prefix: r.Prefix, few: few, max: r.HostConcurrency, fleet: fleet, now: now, changed: changed, hosts: newTable(), swept: now(),
		pacer: newPacer(r)}
	// A fixed target is one host: there is nobody to keep slots for.
	if r.Target.Kind == route.KindNotice && r.Concurrency > 1 {
		l.doubtful = r.Concurrency / 2
	}
	return l
}

// host is what is known of one destination.
type host struct {
	breaker *gobreaker.TwoStepCircuitBreaker[struct{}]

	// All below is guarded by limits.mu.
	name             string
	in               *hostList // of the table; nil while it is being called
	called           bool      // at least once since it is known
	neighbours[host]           // there
	pace
	tally    tally
	used     time.Time
	standing standing
	// share is this instance's part of the host's slots in the view of that number
	// less one; 0 = none was asked.
	view  uint64
	share int
	// allowed is how many slots the host has now: less than its share after it
	// said 429 or 503; it grows by one with every round of good answers. Zero =
	// never slowed.
	allowed float64
	asked   int       // how many of its last answers in a row were 429 or 503
	slowed  time.Time // when its slots were halved last
	trips   int       // tries that failed since the breaker opened
	until   time.Time // nobody is let in before
	// answered is when the host last did, failing when the calls began that have
	// failed slowly since; zero = never, none.
	answered, failing time.Time
	waited            time.Time // when a notice was put off last because all slots were taken
	handed            time.Time // when a notice was handed to the one that tries
	// own: calls from here opened the breaker; peers are the instances that the host
	// answers all the same, and since when that is known. trying: the one call at a time
	// to a host with an open breaker is in flight.
	own, trying bool
	peers       map[string]time.Time
}

// pace is what is known of how fast calls to a host, or to several, get done.
type pace struct {
	inflight int
	latency  time.Duration // the running mean of how long calls took
	moved    time.Time     // when one ended last, or began when none was under way
	refused  counter
	returns  *ring // nil until there are many
}

// ring counts how many come back in each of the coming seconds.
type ring struct {
	from  int64 // the second of the oldest count that is not past
	count [ringSeconds]int32
}

// book finds a second for one more, the given one or a later one with room.
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

func (p *pace) begin(now time.Time) {
	if p.inflight++; p.inflight == 1 {
		p.moved = now
	}
}

func (p *pace) end(took time.Duration, now time.Time) {
	p.inflight--
	p.moved = now
	took = max(0, took) // less than nothing: it was given up while it waited for its turn
	if p.latency == 0 {
		p.latency = took
	}
	p.latency += (took - p.latency) / 4
}

// errSlow is what a breaker is told.
var errSlow = errors.New("slow failure")

// pass is the permission for one exchange. end gives it back.
type pass struct {
	l        *limits
	h        *host
	done     func(error)
	at       time.Time
	wait     time.Duration // before the exchange, for the route's rate
	standing standing      // the host, when the call began
	first    bool          // to a host that was not known
	trial    bool          // the one call at a time to a host with an open breaker
}

// enter asks for permission; if it is refused, the result defers the notice.
func (l *limits) enter(name string) (*pass, *deferral) {
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
		return nil, &deferral{h.putOff(now, 1, notice.ReasonBusy, 0, fmt.Sprintf("all %d slots of %s are other instances'", l.max, name)),
			l.slotHolders(name), "", nil}
	}
	if limit > 0 && h.inflight >= limit {
		h.waited = now
		refused := put(h.putOff(now, limit, notice.ReasonBusy, 0, fmt.Sprintf("all %d slots of %s are taken", limit, name)))
		refused.Host = name
		return nil, refused
	}
	stood := h.standing
	if stood == answers && h.inflight > 0 && now.Sub(h.moved) >= slowFailure {
		stood = unknown // it did answer, but what it has now has not moved for a while
	}
	if !l.hasRoom(stood) {
		return nil, put(l.doubtfulPace.putOff(now, l.doubtful, notice.ReasonBusy, 0,
			fmt.Sprintf("%d calls to hosts that do not answer are under way, and the other slots are kept for those that do", l.doubtful)))
	}
	done, refused := l.allow(h, now)
	if refused != nil {
		return nil, refused
	}
	wait, after, ok := l.pacer.take(now, l.holders(), l.fleet.Shared)
	if !ok {
		done(errExcluded)
		if after == 0 {
			return nil, &deferral{notice.DeferredResult(notice.ReasonRate, minAfter, fmt.Sprintf("the route's rate of %g/s is other instances'",
				l.pacer.whole)), l.holders(), "", nil}
		}
		return nil, put(notice.DeferredResult(notice.ReasonRate, after, fmt.Sprintf("the route's rate of %g/s is used up", l.pacer.whole)))
	}
	h.begin(now)
	l.held[stood]++
	if stood != answers {
		l.doubtfulPace.begin(now)
	}
	p := &pass{l: l, h: h, done: done, at: now.Add(wait), wait: wait, standing: stood, first: !h.called, trial: h.breaker.State() != gobreaker.StateClosed}
	h.called, h.trying = true, h.trying || p.trial
	return p, nil
}

// allow asks the host's breaker.
func (l *limits) allow(h *host, now time.Time) (done func(error), refused *deferral) {
	err := gobreaker.ErrOpenState
	var theirs View
	if !now.Before(h.until) {
		if theirs = l.others(h, now); theirs == nil || len(l.reachedBy(h, now)) > 0 {
			done, err = h.breaker.Allow()
			theirs = nil
		} else if now.Sub(h.handed) < handEvery {
			theirs = nil // it has one
		} else {
			h.handed = now
		}
	}
	if err == nil {
		return done, nil
	}
	res := h.putOff(now, 1, notice.ReasonBreaker, h.until.Sub(now),
		fmt.Sprintf("%s failed slowly %d times in a row; one try at a time until it answers", h.name, breakerFailures))
	res.Host = h.name
	return nil, &deferral{res, theirs, l.tryName(h), nil}
}

// put is a deferral that no other instance can do anything about.
func put(res notice.Result) *deferral { return &deferral{Result: res} }

func (l *limits) newHost(name string) *host { return &host{breaker: l.newBreaker(name)} }

func (l *limits) newBreaker(name string) *gobreaker.TwoStepCircuitBreaker[struct{}] {
	return gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Name: name, MaxRequests: 1, Timeout: breakerOpen,
		ReadyToTrip:   func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= breakerFailures },
		OnStateChange: func(name string, from, to gobreaker.State) { l.changed(name, from, to, l.told) },
		IsExcluded:    func(err error) bool { return errors.Is(err, errExcluded) },
	})
}

// hasRoom reports whether a call to a host of that standing may begin. Of what the
// doubtful may take, half is for those that are only unknown.
func (l *limits) hasRoom(s standing) bool {
	if l.doubtful == 0 || s == answers {
		return true
	}
	if s == hung && l.held[hung] >= max(1, l.doubtful/2) {
		return false
	}
	return l.held[unknown]+l.held[hung] < l.doubtful
}

var errExcluded = errors.New("no exchange")

// await waits for the pass's turn at the rate and reports whether it came before
// ctx ended.
func (p *pass) await(ctx context.Context) bool {
	return p.wait <= 0 || alarm.Wait(ctx, p.wait)
}

// end reports what came of the exchange.
func (p *pass) end(res notice.Result, timedOut bool) {
	now := p.l.now()
	p.l.mu.Lock()
	defer p.l.mu.Unlock()
	h := p.h
	h.used = now
	defer p.l.hosts.put(h)
	took := now.Sub(p.at)
	if res.Reason == notice.ReasonInterrupted {
		took = h.latency // as ever: it is not known how long the receiver took
	}
	h.pace.end(took, now)
	p.l.held[p.standing]--
	if p.standing != answers {
		p.l.doubtfulPace.end(took, now)
	}
	p.l.adapt(h, res, p.at, now)
	var err error
	switch {
	case saysNothing(res.Reason):
		err = errExcluded
	case timedOut || res.Outcome == notice.OutcomeRetry && now.Sub(p.at) >= slowFailure:
		err = errSlow
		h.standing = hung
		if h.failing.IsZero() || p.at.Before(h.failing) {
			h.failing = p.at
		}
	default:
		h.standing = answers
		h.answered, h.failing = now, time.Time{}
	}
	if !errors.Is(err, errExcluded) {
		h.tally.add(now, res.Outcome != notice.OutcomeDelivered)
	}
	before := h.breaker.State()
	h.trying = h.trying && !p.trial
	p.done(err)
	switch after := h.breaker.State(); {
	case after == gobreaker.StateOpen && before != after:
		h.trips++
		h.own = true
		if before == gobreaker.StateClosed {
			h.trips = 0
		}
		h.until = now.Add(min(breakerOpen<<min(h.trips, 8), breakerMost))
		p.l.tellOpen(h, now)
	case after == gobreaker.StateClosed && before != after:
		h.own, h.peers = false, nil
		p.l.tell(wordClosed, h.name)
	}
}

// saysNothing reports whether a call that ended for that reason is no call to its host as
// far as the breaker is concerned.
func saysNothing(r notice.Reason) bool {
	switch r {
	case notice.ReasonShutdown, notice.ReasonBlocked, notice.ReasonInvalid, notice.ReasonInterrupted, notice.ReasonToken:
		return true
	}
	return false
}

// limit is the number of slots the host has now, 0 = unlimited.
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

// adapt gives a host fewer slots or more, as it has answered a call that began then.
func (l *limits) adapt(h *host, res notice.Result, began, now time.Time) {
	switch {
	case res.Status == 429 || res.Status == 503:
		h.asked++
		h.slow(l.share(h), began, now)
		return
	case res.Status != 0:
		h.asked = 0
	}
	if res.Outcome == notice.OutcomeDelivered && h.allowed > 0 {
		h.recover(l.share(h))
	}
}

const (
	// series is how many answers in a row ask for fewer calls before slots are halved.
	series = 3
	// goodForOne is how many good answers make up for one that asks for fewer calls among
	// them: a host that asks less often keeps its slots.
	goodForOne = 8
)

// slow takes a part of a slot for an answer among others. A series of them halves the
// slots, once for all the calls that were in flight together.
func (h *host) slow(most int, began, now time.Time) {
	if h.allowed == 0 {
		h.allowed = float64(most)
	}
	switch {
	case h.allowed == 0 && h.asked < series:
		return
	case h.allowed == 0: // without a limit: of those it had
		h.allowed = float64(h.inflight + h.asked)
	}
	switch {
	case h.asked < series:
		h.allowed = max(1, h.allowed/2, h.allowed-goodForOne/h.allowed)
	case !began.Before(h.slowed):
		h.allowed = max(1, h.allowed/2)
		h.slowed = now
	}
}

// recover adds a slot for every round of good answers.
func (h *host) recover(most int) {
	h.allowed += 1 / h.allowed
	if most > 0 && h.allowed >= float64(most) || h.allowed >= 1<<16 {
		h.allowed = 0
	}
}

// perSecond estimates how many calls get done with that many slots.
// What has not ended for a while counts as slow before it ends.
func (p *pace) perSecond(now time.Time, slots int) float64 {
	latency := max(p.latency, minLatency)
	if p.inflight > 0 {
		latency = max(latency, now.Sub(p.moved))
	}
	return float64(slots) / latency.Seconds()
}

// minLatency is what a host of which nothing is known yet is taken to need.
const minLatency = 20 * time.Millisecond

// putOff puts off: about as long as those refused lately need,
// spread by half of it to either side.
func (p *pace) putOff(now time.Time, slots int, r notice.Reason, atLeast time.Duration, detail string) notice.Result {
	p.refused.add(now)
	atLeast = max(atLeast, minAfter)
	// Two thirds of the room, with the spread all of it: a cut-off at the end would
	// bring all those beyond it back at one instant.
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

// spread is from half of d to one and a half.
func spread(d time.Duration) time.Duration {
	return d/2 + rand.N(d+1)
}

// sweep forgets hosts that were not called for long.
func (l *limits) sweep(now time.Time) {
	if now.Sub(l.swept) < hostIdle/10 {
		return
	}
	l.swept = now
	l.hosts.sweep(now.Add(-hostIdle))
}

// counter counts events per second: those of the last whole second, or of the
// running one if they are more already.
type counter struct {
	second    int64
	cur, last float64
	// mean remembers slow hosts, which end a call only now and then.
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
		if s-c.second > 60 { // asleep for a minute: nothing is left of the mean
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
