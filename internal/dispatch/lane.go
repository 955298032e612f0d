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

	mu       sync.Mutex
	free     int
	running  int // taken slots and put-off attempts that are not settled yet
	hints    []string
	sweeps   []bool // by shard: there may be a backlog
	turn     int    // the shard swept last
	newest   bool   // the end the next sweep begins at
	claiming int
	failing  int // settle calls that Redis did not take yet
	paused   bool
	closed   bool
	backoff  time.Duration // after failed claims
	resting  bool
}

func newLane(d *Dispatcher, r *route.Route) *lane {
	l := &lane{d: d, r: r, h: d.o.Handler(r), free: r.Slots(), sweeps: make([]bool, d.o.Shards), stop: make(chan struct{})}
	for shard := range d.o.Shards {
		l.settles = append(l.settles, coalesce.New(senders, batch, func(e []ending) { l.settle(shard, e) }))
	}
	return l
}

// hintRoom is how many hints may wait beyond the free slots: those gathered
// while claim calls are under way.
const hintRoom = 256

func (l *lane) hint(key string) bool {
	l.mu.Lock()
	if l.paused || l.closed || l.free == 0 || len(l.hints) >= l.free+hintRoom {
		l.mu.Unlock()
		return false
	}
	l.hints = append(l.hints, key)
	l.pump()
	l.mu.Unlock()
	return true
}

func (l *lane) askSweep(shard int) {
	l.mu.Lock()
	l.sweeps[shard] = true
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
			l.sweeps[i] = true
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

// pump begins claim calls as far as slots, hints and backlog allow. The caller
// holds mu.
func (l *lane) pump() {
	for l.claiming < senders && l.free > 0 && !l.paused && !l.closed && !l.resting && l.failing == 0 {
		if len(l.hints) > 0 {
			keys, shard := l.nextHints()
			got := l.d.take(l, len(keys))
			if got < len(keys) { // the sweep finds the others
				l.sweeps[shard] = true
				keys = keys[:got]
			}
			if got == 0 {
				return
			}
			l.begin(got, func(ctx context.Context) (store.Claimed, error) {
				return l.d.o.Store.ClaimKeys(ctx, l.r.Prefix, shard, l.d.token(), l.r.Lease(), keys)
			}, SourceEvent, shard)
			continue
		}
		shard, ok := l.nextSweep()
		if !ok {
			return
		}
		want := l.d.take(l, min(l.free, batch))
		if want == 0 {
			return
		}
		l.sweeps[shard] = false
		newest := l.newest
		l.newest = !l.newest
		l.begin(want, func(ctx context.Context) (store.Claimed, error) {
			return l.d.o.Store.Sweep(ctx, l.r.Prefix, shard, l.d.token(), l.r.Lease(), time.Duration(l.d.grace.Load()), want, newest)
		}, SourceSweep, shard)
	}
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
		if l.sweeps[shard] {
			l.turn = shard
			return shard, true
		}
	}
	return 0, false
}

// begin takes n slots and claims with them. The caller holds mu.
func (l *lane) begin(n int, claim func(context.Context) (store.Claimed, error), source string, shard int) {
	l.free -= n
	l.running += n
	l.claiming++
	l.d.wg.Add(1)
	go func() {
		defer l.d.wg.Done()
		l.claim(n, claim, source, shard)
	}()
}

// claimTimeout bounds one claim call. What it may have claimed although it
// failed comes back when the lease has lapsed.
const claimTimeout = 5 * time.Second

func (l *lane) claim(n int, claim func(context.Context) (store.Claimed, error), source string, shard int) {
	ctx, cancel := context.WithTimeout(l.d.work, claimTimeout)
	c, err := claim(ctx)
	cancel()
	at := time.Now()
	won := len(c.Won)

	l.mu.Lock()
	l.claiming--
	closed := l.closed
	if err != nil {
		l.sweeps[shard] = true
		l.rest()
	} else {
		l.backoff = 0
		if c.More {
			l.sweeps[shard] = true
		}
	}
	l.mu.Unlock()

	// Those won begin before anything else is done: each is late already.
	for i := range c.Won {
		if closed {
			l.giveBack(&c.Won[i])
			continue
		}
		l.d.wg.Add(1)
		go func() {
			defer l.d.wg.Done()
			l.attempt(&c.Won[i], c.Now, at, source)
		}()
	}
	l.release(n-won, n-won)
	if err != nil {
		if l.d.work.Err() == nil {
			l.d.o.Logger.Warn("claim failed; the notices stay due", zap.String("route", l.r.Name), zap.Error(err))
		}
		return
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

// release frees slots and ends running attempts, and claims anew.
func (l *lane) release(slots, running int) {
	waiting := l.d.give(slots)
	l.mu.Lock()
	l.free += slots
	l.running -= running
	l.pump()
	l.mu.Unlock()
	for _, w := range waiting {
		if w != l {
			w.mu.Lock()
			w.pump()
			w.mu.Unlock()
		}
	}
}
