package reconcile

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"notifier/internal/keys"
	"notifier/internal/pace"
	"notifier/internal/store"
	"notifier/internal/wire"
)

// Inspector finds due notices and makes Redis expire their timers. *[Inspections] is one.
type Inspector interface {
	// Inspect returns the due and coming notices of a partition. A patient caller may wait for a
	// call that others share, which takes up to twice as long.
	Inspect(ctx context.Context, l store.Look, patient bool) (store.View, error)
	Touch(ctx context.Context, keys []string) (store.Touched, error)
	// TouchGroups touches timers in groups. Before each group it announces the instance that the
	// events are for.
	TouchGroups(ctx context.Context, prefix string, list []store.TouchGroup) (int, error)
}

// Claimer claims notices that no event has triggered, as many as it has room for.
type Claimer interface {
	Sweep(p keys.Partition)
	SweepDue(p keys.Partition)
	// HintFirst claims due first attempts as soon as there is room, before other notices.
	HintFirst(p keys.Partition, keys []string)
	Room(p keys.Partition) int
	// Expire makes expired notices dead, which needs no room.
	Expire(p keys.Partition)
}

// The intervals of a Sweeper.
const (
	inspectAhead     = store.LookAhead        // how far an inspection sees; notices scheduled within it cause a wake
	maxInspected     = 512                    // keys of one inspection
	idleSubscribed   = 10 * time.Second       // between inspections of an idle partition while a subscription is alive
	idleUnsubscribed = time.Second            // the same without a subscription
	retouch          = 300 * time.Microsecond // after a touch that came too early
	listedAfterGrace = 10 * time.Millisecond  // how long after the grace an inspection still lists a due notice
	backlog          = 100 * time.Millisecond // between inspections of a backlog, which dispatch works on without them
	callLimit        = 3 * time.Second        // timeout of one call
	maxWait          = 250 * time.Millisecond // after a failed call

	// Intervals of an instance that is not preferred for a partition, the notices of one route in one shard. While no
	// notice is due and a subscription is alive, it inspects the partition every idleOthers. Due notices it leaves to the
	// instances that are ranked above it. Only when one grace for each of them has passed, then minAssistDelay, and then
	// a random part of assistSpread, it claims the notices that are still unclaimed.
	idleOthers     = time.Minute
	minAssistDelay = 5 * time.Millisecond
	assistSpread   = 10 * time.Millisecond
	minTouched     = 16 // timers per touch for each instance that receives events: others may have slots when this one has none
)

// Events reports and observes whether expired events arrive.
type Events interface {
	// Subscribed reports whether a subscription is alive.
	Subscribed() bool
	// Flowing reports whether the events of a shard arrive.
	Flowing(shard int) bool
	// Touched receives the timers that are about to be touched, whose events are expected.
	Touched(ctx context.Context, keys []string)
}

// Assignment decides which instance works on a partition. *[fleet.Assignment] is one.
type Assignment interface {
	// Rank returns how many other instances are ranked above this one for a partition. The instance with rank 0
	// inspects the partition and touches its timers. Each other instance first leaves a due notice unclaimed for as
	// many graces as its rank, and then claims it.
	Rank(p keys.Partition) int
	// Alive returns how many instances take events.
	Alive() int
	// Group returns how many notices that are due together one instance may claim as a group. Owner
	// returns the id of the preferred instance of a notice.
	Group(p keys.Partition) int
	Owner(p keys.Partition, key string) string
}

// Peers receives observations of other instances that do not claim. *[fleet.Assignment] is one.
type Peers interface {
	// NotClaimedBy records that an instance did not claim a notice within a grace after it was
	// touched for it.
	NotClaimedBy(id string)
	// NotSwept records that the instances ranked higher have not claimed due notices within their
	// graces, though this instance had room for them.
	NotSwept(p keys.Partition)
}

// alone is the Assignment of a single instance.
type alone struct{}

func (alone) Rank(keys.Partition) int             { return 0 }
func (alone) Alive() int                          { return 1 }
func (alone) Group(keys.Partition) int            { return 1 }
func (alone) Owner(keys.Partition, string) string { return "" }
func (alone) NotClaimedBy(string)                 {}
func (alone) NotSwept(keys.Partition)             {}

// SweeperOptions configure a [Sweeper].
type SweeperOptions struct {
	Store     Inspector
	Dispatch  Claimer
	Partition keys.Partition
	Events    Events
	// Grace is how long a due notice is left to its event.
	Grace time.Duration
	// Ticker may be nil.
	Ticker Ticker
	// Assignment and Peers may be nil if this is the only instance.
	Assignment Assignment
	Peers      Peers
	// Begun is the instant from which idle intervals count. Sweepers with the same Begun inspect at
	// the same instants and share calls. Zero means the time of NewSweeper.
	Begun  time.Time
	Alarm  pace.Kind // the kind of alarm that Run sleeps with
	Logger *zap.Logger
	// Failures, if any, is shared by the Sweepers of an instance, so that Redis's failure is one line in the log.
	Failures *pace.Loops
}

// Sweeper touches and sweeps the notices of one partition at their due time. One goroutine calls
// Run; Wake and Now are safe for concurrent use.
type Sweeper struct {
	o SweeperOptions

	wake       chan struct{}
	urgent     atomic.Bool   // a wake asks for an inspection at once
	shared     atomic.Bool   // a wake asks for an inspection that may share a call
	wakeDue    atomic.Int64  // earliest due time of the other wakes, in Unix µs; 0 = none
	knownUntil atomic.Int64  // all notices due before this time are known; Unix µs by Redis's clock
	spread     time.Duration // random part of assistDelay

	expiring       expiries
	ticks          first // definitions of recurring notices
	patient        bool  // the next inspection may share a call, since nothing known waits for it
	clock          wire.Clock
	upcoming       []store.Timer // notices of the last inspection that are not due yet
	inspectedUntil time.Time     // the last inspection found all notices due until then; upcoming may contain later ones
	// recheckAt is when to inspect whether the events of the touched timers have led to claims.
	// Zero if no timer was touched since the last inspection, or found unclaimed by it.
	recheckAt time.Time
	touched   map[string]string // touched timers whose notices are unclaimed as far as known; the value is the instance they were touched for
}

// NewSweeper returns a Sweeper. Run starts it.
func NewSweeper(o SweeperOptions) *Sweeper {
	if o.Assignment == nil {
		o.Assignment = alone{}
	}

	if o.Peers == nil {
		o.Peers = alone{}
	}

	if o.Begun.IsZero() {
		o.Begun = time.Now()
	}

	return &Sweeper{o: o, spread: minAssistDelay + rand.N(assistSpread),
		wake: make(chan struct{}, 1), touched: map[string]string{}, patient: true}
}

// Wake reports that a notice was scheduled for a due time.
func (s *Sweeper) Wake(due time.Time) {
	at := due.UnixMicro()
	rank := s.o.Assignment.Rank(s.o.Partition)
	if rank == 0 {
		if at < s.knownUntil.Load() {
			s.urgent.Store(true)
			s.signal()
		}

		return
	}

	if at+s.assistDelay(rank).Microseconds() >= s.knownUntil.Load() {
		return
	}

	at = max(at, 1)
	for {
		h := s.wakeDue.Load()
		if h != 0 && h <= at {
			return
		}

		if s.wakeDue.CompareAndSwap(h, at) {
			s.signal()
			return
		}
	}
}

// Now makes the Sweeper inspect at once. Sweepers that are called together share a call.
func (s *Sweeper) Now() {
	s.expiring.known.Store(true) // messages may have been lost
	s.ticks.known.Store(true)
	s.shared.Store(true)
	s.signal()
}

func (s *Sweeper) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Run sweeps until ctx ends, and returns nil.
func (s *Sweeper) Run(ctx context.Context) error {
	a := s.o.Alarm.New()
	defer a.Close()
	again := pace.Loop{Min: 20 * time.Millisecond, Max: maxWait, Logger: s.o.Logger,
		Failure: "sweep failed, retrying", Recovered: "sweeping again", Group: s.o.Failures}
	where := []zap.Field{zap.String("prefix", s.o.Partition.Prefix), zap.Int("shard", s.o.Partition.Shard)}

	for ctx.Err() == nil {
		// Every wake counts until the pass has ended: one that came between the inspection and that
		// moment would be lost.
		s.knownUntil.Store(math.MaxInt64)
		next, err := s.pass(ctx)
		switch {
		case err == nil:
			again.Succeed(where...)
		case ctx.Err() != nil:
			return nil
		default:
			if next = again.Fail(err, where...); next >= maxWait/2 {
				next = s.idle(maxWait) // at the same instant as the other sweepers, to share a call
			}

			s.patient = true
		}

		// Timers before inspectedUntil are touched without another inspection, so a wake for a notice
		// between them must cause one.
		s.knownUntil.Store(max(s.clock.Now().Add(next).UnixMicro(), s.inspectedUntil.UnixMicro()))
		a.Set(next)
		s.sleep(ctx, a)
	}

	return nil
}

// sleep waits until the next pass is due: by the alarm, or by a wake.
func (s *Sweeper) sleep(ctx context.Context, a pace.Alarm) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.C():
			a.Rest()
			return
		case <-s.wake:
			if s.woken() {
				s.upcoming = nil // inspect before touching
				return
			}

			a.Set(s.clock.Until(time.UnixMicro(s.knownUntil.Load())))
		}
	}
}

// woken evaluates the wakes. It reports whether to inspect at once; otherwise it has updated
// knownUntil.
func (s *Sweeper) woken() bool {
	wakeDue, urgent, shared := s.wakeDue.Swap(0), s.urgent.Swap(false), s.shared.Swap(false)
	rank := s.o.Assignment.Rank(s.o.Partition)
	if urgent || shared || rank == 0 {
		s.patient = shared && !urgent
		return true
	}

	if wakeDue != 0 {
		s.patient = false
		s.knownUntil.Store(min(s.knownUntil.Load(), wakeDue+s.assistDelay(rank).Microseconds()))
	}

	return false
}

// idle returns how long an idle Sweeper sleeps with the given interval.
func (s *Sweeper) idle(every time.Duration) time.Duration {
	return every - time.Since(s.o.Begun)%every
}

// inspect inspects the partition and measures Redis's clock.
func (s *Sweeper) inspect(ctx context.Context, grace, ahead time.Duration, most int) (store.View, error) {
	from := time.Now()
	look := store.Look{Partition: s.o.Partition, Grace: grace, Ahead: ahead, Limit: most, Expiring: s.expiring.ask(s.patient),
		Ticks: s.ticks.ask(s.patient)}
	v, err := s.o.Store.Inspect(ctx, look, s.patient)
	s.patient = false
	if look.Expiring {
		s.expiring.learn(v.Expires, err)
	}

	if look.Ticks {
		s.ticks.learn(v.Tick, err)
	}

	if err == nil {
		s.clock.Learn(v.Now, from, time.Now())
	}

	return v, err
}

// pass touches due timers and inspects the partition. It returns how long to sleep.
func (s *Sweeper) pass(ctx context.Context) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	if rank := s.o.Assignment.Rank(s.o.Partition); rank > 0 {
		return s.assist(ctx, rank)
	}

	early, wait, err := s.touchUpcoming(ctx)
	if err != nil || wait > 0 {
		return wait, err
	}

	grace := s.effectiveGrace()
	if grace > 0 {
		grace += listedAfterGrace
	}

	v, err := s.inspect(ctx, grace, inspectAhead, maxInspected)
	if err != nil {
		s.upcoming = nil
		return 0, err
	}

	return s.plan(ctx, v, early)
}

// touchUpcoming touches the timers that the last inspection listed and that are due now. early is true if one of them
// is not due yet by Redis's clock. If wait is positive, the next inspection can wait that long.
func (s *Sweeper) touchUpcoming(ctx context.Context) (early bool, wait time.Duration, err error) {
	now, n := s.clock.Now(), 0
	if s.expiring.passed(now) || s.ticks.passed(now) {
		return false, 0, nil
	}

	for n < len(s.upcoming) && !s.upcoming[n].At.After(now) {
		n++
	}

	if n == 0 {
		return false, 0, nil
	}

	due := s.upcoming[:n]
	s.upcoming = s.upcoming[n:]
	if early, err = s.touch(ctx, due); err != nil || early {
		return early, 0, err
	}

	if len(s.upcoming) == 0 || s.upcoming[0].At.After(s.inspectedUntil) {
		return false, 0, nil
	}

	// The last inspection listed all notices that become due before inspectedUntil.
	// A notice that was scheduled before inspectedUntil since then has sent a wake.
	if s.recheckAt.IsZero() {
		s.recheckAt = s.recheck(due[0])
	}

	left := s.clock.Until(s.recheckAt)
	for _, at := range []time.Time{s.expiring.at, s.ticks.at} {
		if !at.IsZero() {
			left = min(left, s.clock.Until(at))
		}
	}

	if left > 0 {
		return false, max(min(s.clock.Until(s.upcoming[0].At), left), 1), nil
	}

	return false, 0, nil
}

// recheck returns when to inspect a touched timer: one grace after its event was expected.
func (s *Sweeper) recheck(t store.Timer) time.Time { return t.At.Add(s.o.Grace + time.Millisecond) }

// assistDelay returns how long after their due time this instance inspects the notices of others.
// The instances ranked higher have had one grace each by then.
func (s *Sweeper) assistDelay(rank int) time.Duration {
	return time.Duration(rank)*s.o.Grace + s.spread
}

// assist sweeps notices that the preferred instance has not claimed within the grace. It returns how
// long to sleep.
func (s *Sweeper) assist(ctx context.Context, rank int) (time.Duration, error) {
	s.upcoming, s.inspectedUntil, s.recheckAt = nil, time.Time{}, time.Time{}
	clear(s.touched)
	v, err := s.inspect(ctx, s.o.Grace, 0, 1)
	if err != nil {
		return 0, err
	}

	idle := s.idle(idleUnsubscribed)
	if s.o.Events.Subscribed() && v.Overdue == 0 {
		idle = s.idle(idleOthers)
	}

	next := idle
	if v.Overdue > 0 {
		room := s.o.Dispatch.Room(s.o.Partition)
		s.o.Dispatch.Sweep(s.o.Partition)
		if s.o.Dispatch.Room(s.o.Partition) > 0 {
			next = min(next, backlog)
		}

		if v.Overdue <= int64(room) && s.o.Events.Subscribed() {
			s.o.Peers.NotSwept(s.o.Partition)
		}
	}

	if sleep, ok := s.expire(v.Now, s.assistDelay(rank)); ok {
		next = min(next, max(sleep, 0))
	}

	if sleep, ok := s.tick(ctx, v.Now, s.assistDelay(rank)); ok {
		next = min(next, max(sleep, 0))
	}

	for _, t := range v.Near {
		next = min(next, max(s.clock.Until(t.At.Add(s.assistDelay(rank))), 0))
	}

	s.patient = next == idle
	return next, nil
}

// flowing reports whether the events of this partition arrive.
func (s *Sweeper) flowing() bool { return s.o.Events.Flowing(s.o.Partition.Shard) }

func (s *Sweeper) effectiveGrace() time.Duration {
	if s.flowing() {
		return s.o.Grace
	}

	return 0
}

// unclaimed counts the inspected notices that no instance has claimed one grace after their due time. It reports the
// instances that should have claimed them to Peers.NotClaimedBy.
func (s *Sweeper) unclaimed(v store.View) (n int) {
	if !s.flowing() {
		return 0 // without events all due notices are counted as overdue
	}

	for n < len(v.Near) && !v.Near[n].At.After(v.Now.Add(-s.o.Grace)) {
		n++
	}

	// This instance has no free slot for all of them, and the others may be as busy. So none is reported.
	if v.Overdue+int64(n) > int64(s.o.Dispatch.Room(s.o.Partition)) {
		return n
	}

	for _, t := range v.Near[:n] {
		if owner, ok := s.touched[t.Key]; ok && !t.NoTimer {
			s.o.Peers.NotClaimedBy(cmp.Or(owner, s.o.Assignment.Owner(s.o.Partition, t.Key)))
		}
	}

	return n
}

// sleepPlan is how long a Sweeper sleeps. next is reduced by each reason to inspect sooner. If next
// equals idle in the end, there was none, and the inspection may share a call.
type sleepPlan struct{ next, idle time.Duration }

func (p *sleepPlan) sooner(d time.Duration) { p.next = min(p.next, max(d, 0)) }

// plan sweeps, touches and remembers the notices that an inspection has found. early reports whether
// the last touch came too early.
func (s *Sweeper) plan(ctx context.Context, v store.View, early bool) (time.Duration, error) {
	p := sleepPlan{next: s.idle(idleUnsubscribed)}
	full := p.next
	if s.o.Events.Subscribed() {
		p.next = s.idle(idleSubscribed)
	}

	p.idle = p.next
	if sleep, ok := s.expire(v.Now, 0); ok {
		p.sooner(sleep)
	}

	if sleep, ok := s.tick(ctx, v.Now, 0); ok {
		p.sooner(sleep)
	}

	unclaimed := s.unclaimed(v)
	if v.Overdue > 0 || unclaimed > 0 {
		s.o.Dispatch.Sweep(s.o.Partition)
		if s.o.Dispatch.Room(s.o.Partition) > 0 {
			p.sooner(backlog)
		} else {
			p.idle = min(p.idle, full)
			p.sooner(full)
		}
	}

	s.inspectedUntil, s.recheckAt = v.Now.Add(inspectAhead), time.Time{}
	due, untimed := s.sort(v.Near[unclaimed:], v.Now, early, &p)
	if untimed {
		s.o.Dispatch.Sweep(s.o.Partition)
		p.sooner(s.o.Grace)
	}

	early, err := s.touch(ctx, due)
	if err != nil {
		return 0, err
	}

	if early {
		p.sooner(retouch)
	}

	if v.Gap {
		s.inspectedUntil = time.Time{}
	}

	if v.Gap || v.Cut && len(s.upcoming) == 0 {
		p.sooner(time.Millisecond)
	}

	s.patient = p.next == p.idle
	return p.next, nil
}

// sort divides the notices of an inspection. Future ones are stored in s.upcoming, those due and not
// touched yet are returned, and untimed reports whether some are due that no event will follow.
func (s *Sweeper) sort(list []store.Timer, now time.Time, early bool, p *sleepPlan) (due []store.Timer, untimed bool) {
	events := s.flowing()
	still := make(map[string]string, len(s.touched))
	s.upcoming = s.upcoming[:0]
	for _, t := range list {
		switch {
		case t.At.After(now):
			if !t.NoTimer || len(s.upcoming) > 0 {
				s.upcoming = append(s.upcoming, t)
			}

			p.sooner(s.clock.Until(t.At))
		case t.NoTimer || !events:
			untimed = true
		default:
			if owner, ok := s.touched[t.Key]; ok && !early {
				still[t.Key] = owner
			} else {
				due = append(due, t)
			}

			p.sooner(s.clock.Until(s.recheck(t)))
			if s.recheckAt.IsZero() {
				s.recheckAt = s.recheck(t) // the list is in order of time
			}
		}
	}

	s.touched = still
	return due, untimed
}
