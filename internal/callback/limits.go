package callback

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/sony/gobreaker/v2"
	"golang.org/x/time/rate"

	"notifier/internal/notice"
)

// Numbers of the limits.
const (
	breakerFailures = 10              // slow failures in a row that open a host's breaker
	breakerOpen     = 5 * time.Second // how long it stays open at first; twice as long after each try that failed, …
	breakerMost     = maxAfter        // … up to this, so that a hundred dead hosts do not fill a route with tries
	slowFailure     = time.Second     // a failure that took this long counts for the breaker
	minAfter        = 250 * time.Millisecond
	maxAfter        = 30 * time.Second
	returning       = 1000             // notices put off that come back to one host in a second, at most
	ringSeconds     = 256              // how far ahead they are lined up when there are more
	maxTurn         = 4 * time.Minute  // how far ahead those refused for the rate are
	hostIdle        = 10 * time.Minute // what is known of a host is forgotten after this
)

// limits are those of one route: its rate, and per destination slots, speed and
// breaker.
type limits struct {
	max int // slots per destination; 0 = unlimited
	// doubtful is how many calls may be under way to hosts that did not answer last
	// time or were never called; 0 = unlimited. The rest of the route's slots is
	// there for hosts that answer, however many others hang.
	doubtful int
	limiter  *rate.Limiter
	now      func() time.Time
	changed  func(host string, from, to gobreaker.State)

	mu    sync.Mutex
	hosts map[string]*host
	held  [hung + 1]int // calls under way, by what was thought of their host when they began
	crowd pace          // of the doubtful together
	swept time.Time
	// turn is when the next notice refused for the rate may come back: they are
	// lined up at the rate itself.
	turn time.Time
}

// standing is what is thought of a host.
type standing int

const (
	unknown standing = iota // not called yet, or not for long
	answers
	hung // the last call to it failed slowly
)

// onBreaker hears of a destination's breaker changing.
type onBreaker func(host string, from, to gobreaker.State)

func newLimits(maxPerHost, doubtful int, perSecond float64, now func() time.Time, changed onBreaker) *limits {
	l := &limits{max: maxPerHost, doubtful: doubtful, now: now, changed: changed, hosts: map[string]*host{}, swept: now()}
	if perSecond > 0 {
		// A tenth of a second's worth may come at once.
		l.limiter = rate.NewLimiter(rate.Limit(perSecond), max(1, int(perSecond/10)))
	}
	return l
}

// host is what is known of one destination.
type host struct {
	breaker *gobreaker.TwoStepCircuitBreaker[struct{}]

	// All below is guarded by limits.mu.
	pace
	used     time.Time
	standing standing
	// allowed is how many slots the host has now: less than limits.max after it
	// said 429 or 503; it grows by one with every round of good answers. Zero =
	// never slowed.
	allowed float64
	slowed  time.Time // when it was slowed last
	trips   int       // tries that failed since the breaker opened
	until   time.Time // nobody is let in before
}

// pace is what is known of how fast calls to a host, or to several, get done.
type pace struct {
	inflight int
	latency  time.Duration // the running mean of how long calls took
	moved    time.Time     // when one ended last, or began when none was under way
	refused  counter
	back     *ring // nil until there are many
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
		if n := &r.count[sec%ringSeconds]; *n < returning {
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

func (p *pace) end(began, now time.Time) {
	p.inflight--
	p.moved = now
	took := now.Sub(began)
	if p.latency == 0 {
		p.latency = took
	}
	p.latency += (took - p.latency) / 4
}

// errSlow is what a breaker is told.
var errSlow = errors.New("slow failure")

// pass is the permission for one exchange. end gives it back.
type pass struct {
	l     *limits
	h     *host
	done  func(error)
	at    time.Time
	stood standing // the host, when the call began
}

// enter asks for permission; if it is refused, the result defers the notice.
func (l *limits) enter(name string) (*pass, *notice.Result) {
	now := l.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sweep(now)
	h := l.hosts[name]
	if h == nil {
		h = &host{}
		h.breaker = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
			Name: name, MaxRequests: 1, Timeout: breakerOpen,
			ReadyToTrip:   func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= breakerFailures },
			OnStateChange: func(name string, from, to gobreaker.State) { l.changed(name, from, to) },
			IsExcluded:    func(err error) bool { return errors.Is(err, errExcluded) },
		})
		l.hosts[name] = h
	}
	h.used = now
	if limit := h.limit(l.max); limit > 0 && h.inflight >= limit {
		return nil, h.refuse(now, limit, notice.ReasonBusy, 0, fmt.Sprintf("all %d slots of %s are taken", limit, name))
	}
	stood := h.standing
	if stood == answers && h.inflight > 0 && now.Sub(h.moved) >= slowFailure {
		stood = unknown // it did answer, but what it has now has not moved for a while
	}
	if !l.room(stood) {
		return nil, l.crowd.refuse(now, l.doubtful, notice.ReasonBusy, 0,
			fmt.Sprintf("%d calls to hosts that do not answer are under way, and the other slots are kept for those that do", l.doubtful))
	}
	var done func(error)
	err := gobreaker.ErrOpenState
	if !now.Before(h.until) {
		done, err = h.breaker.Allow()
	}
	if err != nil {
		return nil, h.refuse(now, 1, notice.ReasonBreaker, h.until.Sub(now),
			fmt.Sprintf("%s failed slowly %d times in a row; one try at a time until it answers", name, breakerFailures))
	}
	if l.limiter != nil && !l.limiter.AllowN(now, 1) {
		done(errExcluded)
		res := notice.DeferredResult(notice.ReasonBusy, l.lineUp(now), fmt.Sprintf("the route's rate of %g/s is used up",
			float64(l.limiter.Limit())))
		return nil, &res
	}
	h.begin(now)
	l.held[stood]++
	if stood != answers {
		l.crowd.begin(now)
	}
	return &pass{l: l, h: h, done: done, at: now, stood: stood}, nil
}

// room tells whether a call to a host of that standing may begin. Of what the
// doubtful may take, half is for those that are only unknown.
func (l *limits) room(s standing) bool {
	if l.doubtful == 0 || s == answers {
		return true
	}
	if s == hung && l.held[hung] >= max(1, l.doubtful/2) {
		return false
	}
	return l.held[unknown]+l.held[hung] < l.doubtful
}

var errExcluded = errors.New("no exchange")

// end reports what came of the exchange.
func (p *pass) end(res notice.Result, timedOut bool) {
	now := p.l.now()
	p.l.mu.Lock()
	defer p.l.mu.Unlock()
	h := p.h
	h.used = now
	h.pace.end(p.at, now)
	p.l.held[p.stood]--
	if p.stood != answers {
		p.l.crowd.end(p.at, now)
	}
	switch {
	case res.Status == 429 || res.Status == 503:
		h.slow(p.l.max, p.at, now)
	case res.Outcome == notice.OutcomeDelivered && h.allowed > 0:
		h.recover(p.l.max)
	}
	var err error
	switch {
	case res.Reason == notice.ReasonShutdown || res.Reason == notice.ReasonBlocked || res.Reason == notice.ReasonInvalid:
		err = errExcluded
	case timedOut || res.Outcome == notice.OutcomeRetry && now.Sub(p.at) >= slowFailure:
		err = errSlow
		h.standing = hung
	default:
		h.standing = answers
	}
	before := h.breaker.State()
	p.done(err)
	if after := h.breaker.State(); after == gobreaker.StateOpen && before != after {
		h.trips++
		if before == gobreaker.StateClosed {
			h.trips = 0
		}
		h.until = now.Add(min(breakerOpen<<min(h.trips, 8), breakerMost))
	}
}

// limit is the number of slots the host has now, 0 = unlimited.
func (h *host) limit(most int) int {
	if h.allowed == 0 {
		return most
	}
	return max(1, int(h.allowed))
}

// slow halves the slots, once for all the calls that were under way together.
func (h *host) slow(most int, began, now time.Time) {
	if began.Before(h.slowed) {
		return
	}
	if h.allowed == 0 {
		h.allowed = float64(most)
	}
	if h.allowed == 0 { // without a limit: of what it had
		h.allowed = float64(h.inflight + 1)
	}
	h.allowed = max(1, h.allowed/2)
	h.slowed = now
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

// refuse puts off: about as long as those refused lately need,
// spread by half of it to either side.
func (p *pace) refuse(now time.Time, slots int, r notice.Reason, atLeast time.Duration, detail string) *notice.Result {
	p.refused.add(now)
	atLeast = max(atLeast, minAfter)
	// Two thirds of the room, with the spread all of it: a cut-off at the end would
	// bring all those beyond it back at one instant.
	room := (maxAfter - atLeast) * 2 / 3
	need := min(p.refused.perSecond(now)/p.perSecond(now, slots), room.Seconds())
	after := atLeast + spread(time.Duration(need*float64(time.Second)))
	if p.back == nil && p.refused.cur > returning/4 {
		p.back = &ring{from: now.Unix()}
	}
	if p.back != nil {
		after = p.back.book(now, after)
	}
	res := notice.DeferredResult(r, after, detail)
	return &res
}

// spread is from half of d to one and a half.
func spread(d time.Duration) time.Duration {
	return d/2 + rand.N(d+1)
}

// lineUp is when a notice refused for the rate may come back.
func (l *limits) lineUp(now time.Time) time.Duration {
	step := time.Duration(float64(time.Second) / float64(l.limiter.Limit()))
	if l.turn.Before(now) {
		l.turn = now
	}
	l.turn = l.turn.Add(step)
	after := l.turn.Sub(now)
	if after > maxTurn {
		l.turn = now.Add(maxTurn)
		after = maxTurn/2 + rand.N(maxTurn/2)
	}
	return max(after, minAfter)
}

// sweep forgets hosts that were not called for long.
func (l *limits) sweep(now time.Time) {
	if now.Sub(l.swept) < hostIdle/10 {
		return
	}
	l.swept = now
	for name, h := range l.hosts {
		if h.inflight == 0 && now.Sub(h.used) > hostIdle {
			delete(l.hosts, name)
		}
	}
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
