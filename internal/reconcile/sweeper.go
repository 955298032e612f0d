package reconcile

import (
	"context"
	"math"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"notifier/internal/alarm"
	"notifier/internal/store"
)

// Store is what a Sweeper needs of Redis.
type Store interface {
	Look(ctx context.Context, prefix string, shard int, grace, ahead time.Duration, n int) (store.View, error)
	Touch(ctx context.Context, keys []string) (int, error)
}

// Dispatch is who claims.
type Dispatch interface {
	Sweep(prefix string, shard int)
	SweepDue(prefix string, shard int)
	Room(prefix string) int
}

// The intervals of a Sweeper.
const (
	ahead      = 5 * time.Millisecond   // how far a look sees; schedules within it send a wake
	lookAtMost = 512                    // keys of one look
	idleAlive  = 10 * time.Second       // between looks at an idle route while a subscription lives
	idleDead   = time.Second            // and while none does
	retouch    = 300 * time.Microsecond // after a touch that came too early
	backlog    = 100 * time.Millisecond // between looks at a backlog, which dispatch works off by itself
	callLimit  = 3 * time.Second        // one call
)

// Sweeper keeps one route and shard punctual. One goroutine runs it; Wake and
// Now may be called from anywhere.
type Sweeper struct {
	store    Store
	dispatch Dispatch
	prefix   string
	shard    int
	grace    time.Duration
	alive    func() bool // a subscription lives
	events   func() bool // events are known to come
	logger   *zap.Logger

	wake  chan struct{}
	known atomic.Int64 // Unix µs by Redis's clock, up to which all that is due is known
	alarm func() alarm.Alarm

	clock   clock
	near    []store.Timer       // what the last look saw, not yet due
	reach   time.Time           // how far it saw; the last of near may lie beyond
	touched map[string]struct{} // touched, and still unclaimed when last looked at
}

// NewSweeper makes a Sweeper. Run starts it.
func NewSweeper(
	s Store, d Dispatch, prefix string, shard int, grace time.Duration, alive, events func() bool, logger *zap.Logger,
) *Sweeper {
	return &Sweeper{store: s, dispatch: d, prefix: prefix, shard: shard, grace: grace, alive: alive, events: events, logger: logger,
		wake: make(chan struct{}, 1), alarm: alarm.New, touched: map[string]struct{}{}}
}

// Wake tells of a notice that is due at an instant.
func (s *Sweeper) Wake(due time.Time) {
	if due.UnixMicro() < s.known.Load() {
		s.Now()
	}
}

// Now lets it look at once.
func (s *Sweeper) Now() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Run sweeps until ctx ends, and returns nil.
func (s *Sweeper) Run(ctx context.Context) error {
	a := s.alarm()
	defer a.Close()
	failures := 0
	for ctx.Err() == nil {
		// Until the pass has said what it knows, every wake counts: one that
		// came between the look and that would be lost.
		s.known.Store(math.MaxInt64)
		next, err := s.pass(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			if failures++; failures == 1 {
				s.logger.Warn("sweep failed; it is repeated", zap.String("prefix", s.prefix), zap.Int("shard", s.shard), zap.Error(err))
			}
			next = min(10*time.Millisecond<<min(failures, 7), time.Second)
		} else {
			failures = 0
		}
		// Timers within reach are touched without another look, so a wake for
		// what lies between them must bring one.
		s.known.Store(max(s.clock.now().Add(next).UnixMicro(), s.reach.UnixMicro()))
		a.Set(next)
		select {
		case <-ctx.Done():
			return nil
		case <-a.C():
		case <-s.wake:
			s.near = nil // look before anything else
		}
	}
	return nil
}

// pass touches what has become due, looks, and says when to come back.
func (s *Sweeper) pass(ctx context.Context) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	early := false
	if len(s.near) > 0 {
		now := s.clock.now()
		n := 0
		for n < len(s.near) && !s.near[n].At.After(now) {
			n++
		}
		due := s.near[:n]
		s.near = s.near[n:]
		var err error
		if early, err = s.touch(ctx, due); err != nil {
			return 0, err
		}
		if n > 0 && len(s.near) > 0 && !early && !s.near[0].At.After(s.reach) {
			// The look that saw these is a few ms old at most: what was
			// scheduled since within its reach has woken us.
			return s.clock.until(s.near[0].At), nil
		}
	}
	from := time.Now()
	v, err := s.store.Look(ctx, s.prefix, s.shard, s.effectiveGrace(), ahead, lookAtMost)
	if err != nil {
		s.near = nil
		return 0, err
	}
	s.clock.learn(v.Now, from, time.Now())
	return s.plan(ctx, v, early)
}

func (s *Sweeper) effectiveGrace() time.Duration {
	if s.events() {
		return s.grace
	}
	return 0
}

// plan acts on what a look saw.
func (s *Sweeper) plan(ctx context.Context, v store.View, early bool) (time.Duration, error) {
	next := idleDead
	if s.alive() {
		next = idleAlive
	}
	sooner := func(d time.Duration) { next = min(next, max(d, 0)) }
	if v.Overdue > 0 {
		s.dispatch.Sweep(s.prefix, s.shard)
		if s.dispatch.Room(s.prefix) > 0 {
			sooner(backlog)
		} else {
			sooner(idleDead)
		}
	}
	events, bare := s.events(), false
	s.reach = v.Now.Add(ahead)
	still := make(map[string]struct{}, len(s.touched))
	var due []store.Timer
	s.near = s.near[:0]
	for _, t := range v.Near {
		switch {
		case t.At.After(v.Now):
			if !t.Bare || len(s.near) > 0 {
				s.near = append(s.near, t)
			}
			sooner(s.clock.until(t.At))
		case t.Bare:
			bare = true
		case !events:
			bare = true
		default:
			if _, ok := s.touched[t.Key]; ok && !early {
				still[t.Key] = struct{}{}
			} else {
				due = append(due, t)
			}
			sooner(s.clock.until(t.At.Add(s.grace + time.Millisecond)))
		}
	}
	s.touched = still
	if bare {
		s.dispatch.Sweep(s.prefix, s.shard)
		sooner(s.grace)
	}
	early, err := s.touch(ctx, due)
	if err != nil {
		return 0, err
	}
	if early {
		sooner(retouch)
	}
	if v.Cut && len(s.near) == 0 {
		sooner(time.Millisecond)
	}
	return next, nil
}

// touch lets Redis expire timers that are due, as far as dispatch has room for
// their notices; the rest is left to the sweep. It says whether some were not
// yet due by Redis's clock.
func (s *Sweeper) touch(ctx context.Context, due []store.Timer) (early bool, err error) {
	if !s.events() {
		if len(due) > 0 {
			s.dispatch.Sweep(s.prefix, s.shard)
		}
		return false, nil
	}
	room := s.dispatch.Room(s.prefix)
	names := make([]string, 0, min(len(due), room))
	for _, t := range due {
		s.touched[t.Key] = struct{}{}
		if !t.Bare && len(names) < room {
			names = append(names, t.Key)
		}
	}
	if len(names) < len(due) {
		// Nothing would come of touching these now. They need not wait for
		// the grace either.
		s.dispatch.SweepDue(s.prefix, s.shard)
	}
	if len(names) == 0 {
		return false, nil
	}
	left, err := s.store.Touch(ctx, names)
	if err != nil {
		return false, err
	}
	if left > 0 {
		for _, k := range names {
			delete(s.touched, k)
		}
	}
	return left > 0, nil
}
