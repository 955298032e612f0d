package dispatch

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"

	"notifier/internal/coalesce"
	"notifier/internal/route"
	"notifier/internal/store"
)

// lane is one route's way through this process.
type lane struct {
	d       *Dispatcher
	r       *route.Route
	h       Handler
	settles []*coalesce.Batcher[ending] // by shard
	stop    chan struct{}               // closed when settles are given up
	held    int                         // slots of the total; guarded by d.mu

	mu       sync.Mutex
	free     int
	swept    int // slots that sweeps have taken
	running  int // taken slots and put-off attempts that are not settled yet
	hints    []string
	hinted   time.Time // the last hint
	sweeps   []need    // by shard
	turn     int       // the shard swept last
	newest   []bool    // by shard: the end the next sweep begins at
	lost     []call    // claim calls whose replies were lost
	hinting  int       // claim calls under way, of hints
	sweeping int       // and others
	failing  int       // settle calls that Redis did not take yet
	paused   bool      // until SetPaused is called for the first time, too
	closed   bool
	backoff  time.Duration // after failed claims
	resting  bool
}

// need says what a sweep of a shard is to claim.
type need int

const (
	needNone need = iota
	needRipe      // what the event path has had its grace for
	needDue       // everything due: this instance had no room for it before
)

func newLane(d *Dispatcher, r *route.Route) *lane {
	l := &lane{d: d, r: r, h: d.o.Handler(r), free: r.Slots(), stop: make(chan struct{}),
		sweeps: make([]need, d.o.Shards), newest: make([]bool, d.o.Shards), paused: true}
	for shard := range d.o.Shards {
		l.settles = append(l.settles, coalesce.New(senders, settleCompany, batch, func(e []ending) { l.settle(shard, e) }))
	}
	return l
}

// hintRoom is how many hints may wait beyond the free slots: those gathered
// while claim calls are under way.
const hintRoom = 256

func (l *lane) hint(key string) bool {
	l.mu.Lock()
	l.hinted = time.Now()
	if l.paused || l.closed || l.free == 0 || len(l.hints) >= l.free+hintRoom {
		// Its event is spent: the next free slot need not wait for the grace.
		l.sweeps[l.d.o.Shard(key)] = needDue
		l.mu.Unlock()
		return false
	}
	l.hints = append(l.hints, key)
	l.pump()
	l.mu.Unlock()
	return true
}

func (l *lane) askSweep(shard int, n need) {
	l.mu.Lock()
	l.sweeps[shard] = max(l.sweeps[shard], n)
	l.pump()
	l.mu.Unlock()
}

func (l *lane) room() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.paused || l.closed {
		return 0
	}
	return max(l.free-len(l.hints), 0)
}

func (l *lane) setPaused(p bool) {
	l.mu.Lock()
	if l.paused && !p {
		for i := range l.sweeps {
			l.sweeps[i] = needDue
		}
	}
	l.paused = p
	if p {
		l.hints = nil
	}
	l.pump()
	l.mu.Unlock()
}

func (l *lane) close() {
	l.mu.Lock()
	l.closed, l.hints = true, nil
	l.mu.Unlock()
}

// abandon gives up settles that Redis does not take.
func (l *lane) abandon() { close(l.stop) }

// call is one claim call.
type call struct {
	source string
	shard  int
	token  string
	n      int  // slots taken for it
	need   need // of a sweep
	begun  time.Time
	make   func(ctx context.Context, c call) (store.Claimed, error)
}

// pump begins claim calls as far as slots, hints and backlog allow. Hints have
// calls of their own, and slots that sweeps leave free: a backlog, however
// long, does not hold up what falls due now. The caller holds mu.
func (l *lane) pump() {
	for l.free > 0 && !l.paused && !l.closed && !l.resting && l.failing == 0 {
		var begun bool
		switch {
		case len(l.lost) > 0 && l.sweeping < senders:
			begun = l.pumpLost()
		case len(l.hints) > 0 && l.may(l.hinting, min(len(l.hints), l.free)):
			begun = l.pumpHints()
		default:
			begun = l.pumpSweep()
		}
		if !begun {
			return
		}
	}
}

// may tells whether a call for n notices may begin beside those of its kind.
func (l *lane) may(underWay, n int) bool {
	return underWay == 0 || underWay < senders && n >= min(company, l.r.Slots()/2)
}

func (l *lane) pumpLost() bool {
	c := l.lost[0]
	n := l.d.take(l, min(l.free, c.n))
	if n == 0 {
		return false
	}
	l.lost = l.lost[1:]
	l.begin(call{source: c.source, shard: c.shard, token: c.token, n: n, begun: c.begun,
		make: func(ctx context.Context, c call) (store.Claimed, error) {
			return l.d.o.Store.Recover(ctx, l.r.Prefix, c.shard, c.token, l.r.Lease(), c.n, time.Since(c.begun))
		}})
	return true
}

func (l *lane) pumpHints() bool {
	keys, shard := l.nextHints()
	got := l.d.take(l, len(keys))
	if got < len(keys) { // the sweep finds the others
		l.sweeps[shard] = needDue
		keys = keys[:got]
	}
	if got == 0 {
		return false
	}
	l.begin(call{source: SourceEvent, shard: shard, token: l.d.token(), n: got, begun: time.Now(),
		make: func(ctx context.Context, c call) (store.Claimed, error) {
			return l.d.o.Store.ClaimKeys(ctx, l.r.Prefix, c.shard, c.token, l.r.Lease(), keys)
		}})
	return true
}

// hintless is how long no hint came when a backlog gets most of the slots that
// are kept for them.
const hintless = 500 * time.Millisecond

func (l *lane) pumpSweep() bool {
	grace := time.Duration(l.d.grace.Load())
	spare := l.r.Slots() / 4
	switch {
	case grace == 0:
		spare = 0 // no events, no hints
	case time.Since(l.hinted) > hintless:
		spare = max(l.r.Slots()/16, min(spare, 1)) // what a first hint finds; others follow as slots come free
	}
	// A quarter is the sweep's own likewise: hints that come without end may
	// not hold up what fell due before.
	room := max(l.free-spare, min(l.free, max(spare, 1)-l.swept))
	if room <= 0 || !l.may(l.sweeping, room) {
		return false
	}
	shard, ok := l.nextSweep()
	if !ok {
		return false
	}
	want := l.d.take(l, min(room, batch))
	if want == 0 {
		return false
	}
	what := l.sweeps[shard]
	l.sweeps[shard] = needNone
	if what == needDue {
		grace = 0
	}
	newest := l.newest[shard]
	l.newest[shard] = !newest
	l.begin(call{source: SourceSweep, shard: shard, token: l.d.token(), n: want, need: what, begun: time.Now(),
		make: func(ctx context.Context, c call) (store.Claimed, error) {
			return l.d.o.Store.Sweep(ctx, l.r.Prefix, c.shard, c.token, l.r.Lease(), grace, c.n, newest)
		}})
	return true
}

// nextHints takes hints of one shard that have slots.
func (l *lane) nextHints() (keys []string, shard int) {
	n := min(len(l.hints), l.free, batch)
	if l.d.o.Shards == 1 {
		keys = l.hints[:n:n]
		l.hints = l.hints[n:]
		return keys, 0
	}
	shard = l.d.o.Shard(l.hints[0])
	rest := l.hints[:0:0]
	for _, k := range l.hints {
		if len(keys) < n && l.d.o.Shard(k) == shard {
			keys = append(keys, k)
		} else {
			rest = append(rest, k)
		}
	}
	l.hints = rest
	return keys, shard
}

func (l *lane) nextSweep() (int, bool) {
	for i := range l.sweeps {
		shard := (l.turn + 1 + i) % len(l.sweeps)
		if l.sweeps[shard] != needNone {
			l.turn = shard
			return shard, true
		}
	}
	return 0, false
}

// begin takes a call's slots and makes it. The caller holds mu.
func (l *lane) begin(c call) {
	l.free -= c.n
	l.running += c.n
	l.calls(c.source, 1)
	if c.source == SourceSweep {
		l.swept += c.n
	}
	l.d.wg.Add(1)
	go func() {
		defer l.d.wg.Done()
		l.claim(c)
	}()
}

func (l *lane) calls(source string, n int) {
	if source == SourceEvent {
		l.hinting += n
	} else {
		l.sweeping += n
	}
}

// claimTimeout bounds one claim call.
const claimTimeout = 5 * time.Second

// mostLost bounds how many lost calls are remembered; what others may have
// claimed comes back when its lease has lapsed.
const mostLost = 16

func (l *lane) claim(call call) {
	ctx, cancel := context.WithTimeout(l.d.work, claimTimeout)
	c, err := call.make(ctx, call)
	cancel()
	at := time.Now()
	won, n, source, shard := len(c.Won), call.n, call.source, call.shard

	l.mu.Lock()
	l.calls(source, -1)
	closed, first := l.closed, l.backoff == 0
	if err != nil {
		l.sweeps[shard] = needDue
		// It may have been made although no answer came.
		if len(l.lost) < mostLost && time.Since(call.begun) < l.r.Lease() {
			l.lost = append(l.lost, call)
		}
		l.rest()
	} else {
		l.backoff = 0
		if c.More {
			l.sweeps[shard] = max(l.sweeps[shard], call.need)
		}
	}
	l.mu.Unlock()

	// Those won begin before anything else is done: each is late already.
	for i := range c.Won {
		if closed && !c.Won[i].Handed { // one that awaited a report has no handler to run
			l.giveBack(&c.Won[i], source)
			continue
		}
		l.d.start(job{l, &c.Won[i], c.Now, at, source})
	}
	l.release(n-won, n-won, swept(source, n-won))
	if err != nil {
		if first && l.d.work.Err() == nil {
			l.d.o.Logger.Warn("claim failed; the notices stay due", zap.String("route", l.r.Name), zap.Error(err))
		}
		return
	}
	if l.r.Adopt && source == SourceSweep && won > 0 {
		l.expire(c.Won)
	}
	o := l.d.o.Observer
	o.Claims(source, "won", won)
	o.Claims(source, "lost", c.Lost)
	o.Claims(source, "stale", c.Stale)
	for _, k := range c.Broken {
		l.d.o.Logger.Error("record missing or unreadable; it is skipped", zap.String("route", l.r.Name), zap.String("key", k))
	}
	if len(c.StaleKeys) > 0 && l.d.o.Stale != nil {
		l.d.o.Stale(l.r, c.StaleKeys)
	}
}

// expire lets Redis delete the timers of swept notices now. Where timers are
// adopted, their expired events must not come when the notice has long been
// settled and forgotten: they would be taken for timers that nobody adopted.
func (l *lane) expire(won []store.Claim) {
	keys := make([]string, len(won))
	for i := range won {
		keys[i] = won[i].Key
	}
	ctx, cancel := context.WithTimeout(l.d.work, claimTimeout)
	defer cancel()
	if _, err := l.d.o.Store.Touch(ctx, keys); err != nil && l.d.work.Err() == nil {
		l.d.o.Logger.Debug("timers of swept notices were not touched", zap.String("route", l.r.Name), zap.Error(err))
	}
}

// rest pauses the lane's claims for a while after a failed one. The caller
// holds mu.
func (l *lane) rest() {
	l.backoff = min(max(2*l.backoff, 20*time.Millisecond), time.Second)
	if l.resting || l.closed {
		return
	}
	l.resting = true
	time.AfterFunc(l.backoff, func() {
		l.mu.Lock()
		l.resting = false
		l.pump()
		l.mu.Unlock()
	})
}

// swept is how many of n slots are a sweep's.
func swept(source string, n int) int {
	if source == SourceSweep {
		return n
	}
	return 0
}

// release frees slots, of which sweeps had taken some, and ends running
// attempts. Then it claims anew: for the routes that wait for the total before
// this one, if they hold less of it.
func (l *lane) release(slots, running, swept int) {
	waiting := l.d.give(l, slots)
	l.mu.Lock()
	l.free += slots
	l.swept -= swept
	l.running -= running
	l.mu.Unlock()
	self := false
	for _, w := range waiting {
		self = self || w == l
		w.mu.Lock()
		w.pump()
		w.mu.Unlock()
	}
	if !self {
		l.mu.Lock()
		l.pump()
		l.mu.Unlock()
	}
}
