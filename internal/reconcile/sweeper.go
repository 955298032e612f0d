package reconcile

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"notifier/internal/alarm"
	"notifier/internal/keys"
	"notifier/internal/retry"
	"notifier/internal/store"
)

// Looker looks for what is due, and makes Redis expire it. *[Looks] is one.
type Looker interface {
	// Look looks at one partition. One that is patient may wait for a call that
	// others share, which takes about as long again.
	Look(ctx context.Context, l store.Look, patient bool) (store.View, error)
	Touch(ctx context.Context, keys []string) (store.Touched, error)
	// TouchGroups touches, and says before each group whom its events are for.
	TouchGroups(ctx context.Context, prefix string, list []store.TouchGroup) (int, error)
}

// Claimer claims what is overdue, as it has room for it.
type Claimer interface {
	Sweep(p keys.Partition)
	SweepDue(p keys.Partition)
	Room(p keys.Partition) int
}

// The intervals of a Sweeper.
const (
	ahead            = store.LookAhead        // how far a look sees; schedules within it send a wake
	lookAtMost       = 512                    // keys of one look
	idleSubscribed   = 10 * time.Second       // between looks at an idle route while a subscription lives
	idleUnsubscribed = time.Second            // and while none does
	retouch          = 300 * time.Microsecond // after a touch that came too early
	named            = 10 * time.Millisecond  // how long after the grace a look still names what is due
	backlog          = 100 * time.Millisecond // between looks at a backlog, which dispatch works off by itself
	callLimit        = 3 * time.Second        // one call
	longestRest      = 250 * time.Millisecond // after a call that failed

	// Of an instance that is not preferred for the partition: the time between
	// looks at an idle route, and how long after the graces it looks, so that
	// whoever is preferred comes first, and the others one after another.
	idleOthers   = time.Minute
	helpEarliest = 5 * time.Millisecond
	helpSpread   = 10 * time.Millisecond
	leastTouched = 16 // at a time, for each instance that hears events: it may have slots though this one has none
)

// Events tell what is known of expired events.
type Events interface {
	// Subscribed reports whether a subscription lives.
	Subscribed() bool
	// Flowing reports whether the events of a shard are known to arrive.
	Flowing(shard int) bool
	// Touched takes the timers that are about to be touched.
	Touched(ctx context.Context, keys []string)
}

// Assignment decides which instance works on a partition. *[fleet.Assignment] is one.
type Assignment interface {
	// Rank is how many other instances come before this one to look at a partition: the one
	// whose rank is 0 looks and touches, the next ones leave the due notices for as many
	// graces.
	Rank(p keys.Partition) int
	// Living is how many instances take events.
	Living() int
	// Group is how many notices that fall due together may be for one instance, and Owner
	// the id of the instance that is preferred for a notice.
	Group(p keys.Partition) int
	Owner(p keys.Partition, key string) string
}

// Absences take what shows that other instances do not claim.
type Absences interface {
	// LeftBy notes that the instance of an id has not claimed, within a grace, a notice
	// that was touched for it.
	LeftBy(id string)
	// Overlooked notes that the instances which come before this one have left a due notice
	// for the graces that they have, though this instance has room for it.
	Overlooked(p keys.Partition)
}

// alone is the Assignment of one instance.
type alone struct{}

func (alone) Rank(keys.Partition) int             { return 0 }
func (alone) Living() int                         { return 1 }
func (alone) Group(keys.Partition) int            { return 1 }
func (alone) Owner(keys.Partition, string) string { return "" }
func (alone) LeftBy(string)                       {}
func (alone) Overlooked(keys.Partition)           {}

// SweeperOptions of a Sweeper.
type SweeperOptions struct {
	Store     Looker
	Dispatch  Claimer
	Partition keys.Partition
	Events    Events
	// Grace is how long a due notice is left to its event.
	Grace time.Duration
	// Assignment and Absences may be nil: this instance is alone.
	Assignment Assignment
	Absences   Absences
	// Begun is when idle looks are counted from. Sweepers that have the same look
	// at the same instants, and share calls; zero = when this one was made.
	Begun  time.Time
	Alarm  alarm.Kind // that it sleeps with
	Logger *zap.Logger
}

// Sweeper keeps one partition punctual. One goroutine runs it; Wake and
// Now may be called from anywhere.
type Sweeper struct {
	o SweeperOptions

	wake   chan struct{}
	urgent atomic.Bool   // a wake is for a look at once
	asked  atomic.Bool   // a wake is for a look that may share a call
	heard  atomic.Int64  // else the earliest due time that wakes told of, in Unix µs; 0 = none
	known  atomic.Int64  // Unix µs by Redis's clock, up to which all that is due is known
	spread time.Duration // what is added to the graces that others' notices are left for

	patient bool // nothing that is known of asks for the coming look
	clock   clock
	near    []store.Timer // what the last look saw, not yet due
	reach   time.Time     // how far it saw; the last of near may lie beyond
	// when to look whether events have brought what was touched since the last look, or was at it; zero = nothing was
	check   time.Time
	touched map[string]string // touched, and still unclaimed when last looked at, and for whom
}

// NewSweeper makes a Sweeper. Run starts it.
func NewSweeper(o SweeperOptions) *Sweeper {
	if o.Assignment == nil {
		o.Assignment = alone{}
	}
	if o.Absences == nil {
		o.Absences = alone{}
	}
	if o.Begun.IsZero() {
		o.Begun = time.Now()
	}
	return &Sweeper{o: o, spread: helpEarliest + rand.N(helpSpread), wake: make(chan struct{}, 1), touched: map[string]string{}, patient: true}
}

// Wake tells of a notice that is due at an instant.
func (s *Sweeper) Wake(due time.Time) {
	at := due.UnixMicro()
	rank := s.o.Assignment.Rank(s.o.Partition)
	if rank == 0 {
		if at < s.known.Load() {
			s.urgent.Store(true)
			s.signal()
		}
		return
	}
	if at+s.help(rank).Microseconds() >= s.known.Load() {
		return
	}
	at = max(at, 1)
	for {
		h := s.heard.Load()
		if h != 0 && h <= at {
			return
		}
		if s.heard.CompareAndSwap(h, at) {
			s.signal()
			return
		}
	}
}

// Now lets it look at once, with others that are told so too.
func (s *Sweeper) Now() {
	s.asked.Store(true)
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
	again := retry.Loop{Min: 20 * time.Millisecond, Max: longestRest, Logger: s.o.Logger,
		Failure: "sweep failed, retrying", Recovered: "sweeping again"}
	where := []zap.Field{zap.String("prefix", s.o.Partition.Prefix), zap.Int("shard", s.o.Partition.Shard)}
	for ctx.Err() == nil {
		// Until the pass has said what it knows, every wake counts: one that
		// came between the look and that would be lost.
		s.known.Store(math.MaxInt64)
		next, err := s.pass(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			if next = again.Fail(err, where...); next >= longestRest/2 {
				next = s.idle(longestRest) // in step with the other sweepers, which share a call
			}
			s.patient = true
		} else {
			again.Succeed(where...)
		}
		// Timers within reach are touched without another look, so a wake for
		// what lies between them must bring one.
		s.known.Store(max(s.clock.now().Add(next).UnixMicro(), s.reach.UnixMicro()))
		a.Set(next)
		for look := false; !look; {
			select {
			case <-ctx.Done():
				return nil
			case <-a.C():
				look = true
			case <-s.wake:
				if look = s.woken(); look {
					s.near = nil // look before anything else
					continue
				}
				a.Set(s.clock.until(time.UnixMicro(s.known.Load())))
			}
		}
	}
	return nil
}

// woken takes what wakes have told, and reports whether to look at once; if
// not, it is known when.
func (s *Sweeper) woken() bool {
	heard, urgent, asked := s.heard.Swap(0), s.urgent.Swap(false), s.asked.Swap(false)
	rank := s.o.Assignment.Rank(s.o.Partition)
	if urgent || asked || rank == 0 {
		s.patient = asked && !urgent
		return true
	}
	if heard != 0 {
		s.patient = false
		s.known.Store(min(s.known.Load(), heard+s.help(rank).Microseconds()))
	}
	return false
}

// idle is how long it is until an idle Sweeper looks next.
func (s *Sweeper) idle(every time.Duration) time.Duration {
	return every - time.Since(s.o.Begun)%every
}

// look looks at the partition and learns the time from it.
func (s *Sweeper) look(ctx context.Context, grace, ahead time.Duration, most int) (store.View, error) {
	from := time.Now()
	v, err := s.o.Store.Look(ctx, store.Look{Partition: s.o.Partition, Grace: grace, Ahead: ahead, Limit: most}, s.patient)
	s.patient = false
	if err == nil {
		s.clock.learn(v.Now, from, time.Now())
	}
	return v, err
}

// pass touches what has become due, looks, and says when to come back.
func (s *Sweeper) pass(ctx context.Context) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	if rank := s.o.Assignment.Rank(s.o.Partition); rank > 0 {
		return s.watch(ctx, rank)
	}
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
			// What was scheduled within the reach of the look that saw these has
			// woken us since.
			if s.check.IsZero() {
				s.check = s.recheck(due[0])
			}
			if left := s.clock.until(s.check); left > 0 {
				return min(s.clock.until(s.near[0].At), left), nil
			}
		}
	}
	grace := s.effectiveGrace()
	if grace > 0 {
		grace += named
	}
	v, err := s.look(ctx, grace, ahead, lookAtMost)
	if err != nil {
		s.near = nil
		return 0, err
	}
	return s.plan(ctx, v, early)
}

// recheck is when a timer that was touched is looked at again: its event has had the
// grace then.
func (s *Sweeper) recheck(t store.Timer) time.Time { return t.At.Add(s.o.Grace + time.Millisecond) }

// help is how long after the due time another's notices are looked at: the next
// in rank has had a grace for them then.
func (s *Sweeper) help(rank int) time.Duration { return time.Duration(rank)*s.o.Grace + s.spread }

// watch looks whether something was left for a grace by whoever is preferred,
// sweeps that, and says when to come back.
func (s *Sweeper) watch(ctx context.Context, rank int) (time.Duration, error) {
	s.near, s.reach, s.check = nil, time.Time{}, time.Time{}
	clear(s.touched)
	v, err := s.look(ctx, s.o.Grace, 0, 1)
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
			s.o.Absences.Overlooked(s.o.Partition)
		}
	}
	for _, t := range v.Near {
		next = min(next, max(s.clock.until(t.At.Add(s.help(rank))), 0))
	}
	s.patient = next == idle
	return next, nil
}

// flowing reports whether the events of this partition are known to arrive.
func (s *Sweeper) flowing() bool { return s.o.Events.Flowing(s.o.Partition.Shard) }

func (s *Sweeper) effectiveGrace() time.Duration {
	if s.flowing() {
		return s.o.Grace
	}
	return 0
}

// left is how many of the first that a look names have been left for the grace, and tells
// for whom they were touched. Where there is no room for them here, too much is due at
// once, and nobody is to be relieved of what is theirs.
func (s *Sweeper) left(v store.View) (n int) {
	if !s.flowing() {
		return 0 // all that is due is overdue
	}
	for n < len(v.Near) && !v.Near[n].At.After(v.Now.Add(-s.o.Grace)) {
		n++
	}
	if v.Overdue+int64(n) > int64(s.o.Dispatch.Room(s.o.Partition)) {
		return n
	}
	for _, t := range v.Near[:n] {
		if owner, ok := s.touched[t.Key]; ok && !t.NoTimer {
			s.o.Absences.LeftBy(cmp.Or(owner, s.o.Assignment.Owner(s.o.Partition, t.Key)))
		}
	}
	return n
}

// plan acts on what a look saw.
func (s *Sweeper) plan(ctx context.Context, v store.View, early bool) (time.Duration, error) {
	next := s.idle(idleUnsubscribed)
	full := next
	if s.o.Events.Subscribed() {
		next = s.idle(idleSubscribed)
	}
	idle := next
	sooner := func(d time.Duration) { next = min(next, max(d, 0)) }
	left := s.left(v)
	if v.Overdue > 0 || left > 0 {
		s.o.Dispatch.Sweep(s.o.Partition)
		if s.o.Dispatch.Room(s.o.Partition) > 0 {
			sooner(backlog)
		} else {
			idle = min(idle, full)
			sooner(full)
		}
	}
	events, untimed := s.flowing(), false
	s.reach, s.check = v.Now.Add(ahead), time.Time{}
	still := make(map[string]string, len(s.touched))
	var due []store.Timer
	s.near = s.near[:0]
	for _, t := range v.Near[left:] {
		switch {
		case t.At.After(v.Now):
			if !t.NoTimer || len(s.near) > 0 {
				s.near = append(s.near, t)
			}
			sooner(s.clock.until(t.At))
		case t.NoTimer:
			untimed = true
		case !events:
			untimed = true
		default:
			if owner, ok := s.touched[t.Key]; ok && !early {
				still[t.Key] = owner
			} else {
				due = append(due, t)
			}
			sooner(s.clock.until(s.recheck(t)))
			if s.check.IsZero() {
				s.check = s.recheck(t) // they are in order
			}
		}
	}
	s.touched = still
	if untimed {
		s.o.Dispatch.Sweep(s.o.Partition)
		sooner(s.o.Grace)
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
	s.patient = next == idle
	return next, nil
}

// touch lets Redis expire timers that are due, as far as dispatch has room for
// their notices, here and, as far as that can be told, at the others that hear
// the events; the rest is left to the sweep. It reports whether some were not yet
// due by Redis's clock.
func (s *Sweeper) touch(ctx context.Context, due []store.Timer) (early bool, err error) {
	if !s.flowing() {
		if len(due) > 0 {
			s.o.Dispatch.Sweep(s.o.Partition)
		}
		return false, nil
	}
	room := s.o.Dispatch.Room(s.o.Partition)
	if n := s.o.Assignment.Living(); n > 1 {
		room = n * max(room, leastTouched)
	}
	names := make([]string, 0, min(len(due), room))
	for _, t := range due {
		s.touched[t.Key] = ""
		if !t.NoTimer && len(names) < room {
			names = append(names, t.Key)
		}
	}
	if len(names) < len(due) {
		// Nothing would come of touching these now. They need not wait for
		// the grace either.
		s.o.Dispatch.SweepDue(s.o.Partition)
	}
	if len(names) == 0 {
		return false, nil
	}
	s.o.Events.Touched(ctx, names)
	got, err := s.touchAll(ctx, names)
	if err != nil {
		return false, err
	}
	if got.Missed > 0 {
		// Their node does not answer, and this partition's does.
		s.o.Dispatch.SweepDue(s.o.Partition)
	}
	if got.Left > 0 {
		for _, k := range names {
			delete(s.touched, k)
		}
	}
	return got.Left > 0, nil
}

// touchAll touches timers. Notices that fall due together are for one instance, in groups
// of Assignment.Group, because it claims and settles a group in one call each.
func (s *Sweeper) touchAll(ctx context.Context, names []string) (store.Touched, error) {
	size := 1
	if len(names) > 1 {
		size = s.o.Assignment.Group(s.o.Partition)
	}
	if size <= 1 {
		return s.o.Store.Touch(ctx, names)
	}
	var list []store.TouchGroup
	for group := range slices.Chunk(names, size) {
		owner := s.o.Assignment.Owner(s.o.Partition, group[0])
		for _, k := range group {
			s.touched[k] = owner
		}
		list = append(list, store.TouchGroup{For: owner, Keys: group})
	}
	left, err := s.o.Store.TouchGroups(ctx, s.o.Partition.Prefix, list)
	return store.Touched{Left: left}, err
}
