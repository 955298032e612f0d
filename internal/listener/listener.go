package listener

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/pace"
	"notifier/internal/route"
	"notifier/internal/wire"
)

// Observer counts events and subscriptions.
type Observer interface {
	Event(result notice.EventResult)
	Subscription()
}

// Cluster lists the masters of a cluster.
type Cluster interface {
	// Masters calls f for each master.
	Masters(ctx context.Context, f func(ctx context.Context, c redis.Cmdable) error) error
	// Master returns the address of the master that holds a key.
	Master(ctx context.Context, key string) string
}

// Hints receives the keys of events. Its methods must not block.
type Hints interface {
	// Expired receives a key that has expired. It returns false if there was no room.
	Expired(r *route.Route, key string) bool
	// Keyspace receives an event of a key whose route has adoption.
	Keyspace(r *route.Route, key, event string)
}

// Wakes receives the messages of the wake channel. Its methods must not block.
type Wakes interface {
	// Wake reports that a notice of a partition was scheduled for a due time that may be the
	// earliest.
	Wake(p keys.Partition, due time.Time)
	// Expires reports that a notice of a partition expires at a time that may be the earliest of all.
	Expires(p keys.Partition, at time.Time)
	// Ticks reports that the next occurrence of a recurring notice of a partition is to be stored at a time that may be the earliest.
	Ticks(p keys.Partition, at time.Time)
	// Paused is called when the set of paused routes has changed.
	Paused()
	// Places is called when the shards have changed.
	Places()
}

// State receives changes of subscriptions and events. Its methods must not block.
type State interface {
	// Subscribed is called when a subscription has begun, or when missing notify flags are set
	// again. Events may have been missed before.
	Subscribed()
	// Events is called when expired events stop arriving (false) or arrive again (true). The
	// initial state is true.
	Events(ok bool)
	// Adopting reports whether all keyspace events of routes with adoption arrive. After true,
	// events may have been missed before the call.
	Adopting(ok bool)
}

// Assignment decides which instance claims a notice whose timer has expired, and which one reads
// flags. *[fleet.Assignment] is one. The instances should agree.
type Assignment interface {
	// LeavesToPeer reports whether an expired key is left to another instance.
	LeavesToPeer(r *route.Route, key string) bool
	// OwnsGroup reports whether this instance is the one that a group was announced for. If ok is
	// false, the announcement does not count and LeavesToPeer decides.
	OwnsGroup(r *route.Route, id string) (mine, ok bool)
	// ReadsFlags reports whether this instance reads the notify flags of the node at addr with each
	// beat.
	ReadsFlags(addr string) bool
}

// alone is the Assignment of a single instance.
type alone struct{}

func (alone) LeavesToPeer(*route.Route, string) bool      { return false }
func (alone) OwnsGroup(*route.Route, string) (bool, bool) { return false, false }
func (alone) ReadsFlags(string) bool                      { return true }

// Options configure a [Listener].
type Options struct {
	Client  redis.Cmdable
	Cluster Cluster // nil outside a cluster
	DB      int
	Space   keys.Space
	Routes  *route.Table
	// Configure allows adding Ex, and the flags for adoption, to notify-keyspace-events.
	Configure bool

	Hints Hints
	Wakes Wakes
	State State
	// Assignment may be nil if this is the only instance.
	Assignment Assignment
	Observer   Observer
	Logger     *zap.Logger

	// Grace is how long the event of a touched timer may take; zero = 50 ms.
	Grace time.Duration
	// Beat is the interval of the messages that check a subscription; zero = 1 s.
	Beat time.Duration
	// Silence is how long a subscription may receive no beat before it is replaced; zero = 3 s.
	Silence time.Duration
	// Check is the interval of reading a node's role; zero = 5 s.
	Check time.Duration
	// Flags is the interval of reading a node's notify flags if another instance is preferred for
	// that, or if CONFIG is refused; zero = 10 s.
	Flags time.Duration
	// Retry is the delay after a failed subscription; zero = 50 ms. It doubles up to one second.
	Retry time.Duration
}

// Listener receives the events of all masters. Use New to create one.
type Listener struct {
	o        Options
	channels []string
	patterns []string
	needs    string // flags
	alive    atomic.Int32
	mu       sync.Mutex
	begun    time.Time
	flows    map[string]*flow // by address
	flowing  bool             // the events of all nodes arrive
	unfit    unfit
	keyspace map[string]bool // by address: the keyspace events of routes with adoption arrive
	denied   bool            // a refusal has been logged
	again    chan struct{}   // closed by Again
}

// New returns a Listener.
func New(o Options) *Listener {
	o.Beat, o.Silence, o.Check = orElse(o.Beat, time.Second), orElse(o.Silence, 3*time.Second), orElse(o.Check, 5*time.Second)
	o.Flags, o.Retry, o.Grace = orElse(o.Flags, 10*time.Second), orElse(o.Retry, 50*time.Millisecond), orElse(o.Grace, 50*time.Millisecond)
	if o.Assignment == nil {
		o.Assignment = alone{}
	}

	l := &Listener{o: o, channels: []string{keys.Expired(o.DB), o.Space.Wake()}, needs: "Ex", flows: map[string]*flow{},
		begun: time.Now(), flowing: true, keyspace: map[string]bool{}, again: make(chan struct{})}
	for _, r := range o.Routes.All() {
		if r.Adopt {
			l.patterns = append(l.patterns, keys.Keyspace(o.DB, r.Prefix))
		}
	}

	if len(l.patterns) > 0 {
		l.needs = "KEg$x"
	}

	return l
}

func orElse(d, e time.Duration) time.Duration {
	if d > 0 {
		return d
	}
	return e
}

// Alive returns how many subscriptions receive their beat.
func (l *Listener) Alive() int { return int(l.alive.Load()) }

// Again ends the waits before the next attempt to subscribe or to list the masters. It is called
// when the nodes may answer again.
func (l *Listener) Again() {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.again)
	l.again = make(chan struct{})
}

// waits returns a channel that the next Again closes.
func (l *Listener) waits() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.again
}

// Run receives events until ctx ends. It returns nil then.
func (l *Listener) Run(ctx context.Context) error {
	if l.o.Cluster == nil {
		if wire.Masters(l.o.Client) != nil {
			return fmt.Errorf("listener: %T needs Cluster", l.o.Client)
		}

		l.follow(ctx, l.o.Client)
		return nil
	}
	return l.runCluster(ctx)
}

// runCluster keeps one follower per master while masters come and go.
func (l *Listener) runCluster(ctx context.Context) error {
	running := followers{l: l, byAddr: map[string]*follower{}}
	defer running.stopAll()

	for {
		again := l.waits()
		masters, err := l.masters(ctx)
		if err == nil {
			running.stopOthers(masters)
		}

		running.start(ctx, masters)

		select {
		case <-ctx.Done():
			return nil
		case <-again:
		case <-time.After(l.o.Beat):
		}
	}
}

// masters returns the clients of the masters, by address. With an error the list may be incomplete.
func (l *Listener) masters(ctx context.Context) (map[string]redis.Cmdable, error) {
	var mu sync.Mutex
	list := map[string]redis.Cmdable{}
	err := l.o.Cluster.Masters(ctx, func(_ context.Context, c redis.Cmdable) error {
		mu.Lock()
		defer mu.Unlock()
		list[wire.Addr(c)] = c
		return nil
	})
	return list, err
}

// followers are the goroutines that follow the masters of a cluster.
type followers struct {
	l      *Listener
	byAddr map[string]*follower
}

type follower struct {
	cancel context.CancelFunc
	done   chan struct{}
	client redis.Cmdable
}

// start follows the masters that are not followed yet.
func (s *followers) start(ctx context.Context, masters map[string]redis.Cmdable) {
	for addr, c := range masters {
		if s.byAddr[addr] != nil {
			continue
		}

		fctx, cancel := context.WithCancel(ctx)
		f := &follower{cancel: cancel, done: make(chan struct{}), client: c}
		s.byAddr[addr] = f
		go func() {
			defer close(f.done)
			s.l.follow(fctx, c)
		}()
	}
}

// stopOthers stops the followers of all nodes except these masters.
func (s *followers) stopOthers(masters map[string]redis.Cmdable) {
	for addr, f := range s.byAddr {
		if masters[addr] != f.client {
			s.stop(addr)
		}
	}
}

func (s *followers) stopAll() {
	for addr := range s.byAddr {
		s.stop(addr)
	}
}

func (s *followers) stop(addr string) {
	s.byAddr[addr].cancel()
	<-s.byAddr[addr].done
	delete(s.byAddr, addr)
}

// follow keeps a subscription to one node until ctx ends.
func (l *Listener) follow(ctx context.Context, c redis.Cmdable) {
	f := l.newFlow(c)
	defer l.forget(f)

	loop := pace.Loop{Min: l.o.Retry, Max: max(time.Second, l.o.Retry), Logger: l.o.Logger, Failure: "subscription ended, opening another"}
	for {
		again := l.waits()
		err := l.subscribe(ctx, f, &loop)
		if ctx.Err() != nil {
			return
		}

		if redis.IsPermissionError(err) {
			l.refuse(f, err)
		}

		select {
		case <-ctx.Done():
			return
		case <-again:
			loop.Hurry()
		case <-time.After(loop.Fail(err, zap.String("redis", wire.Addr(c)))):
		}
	}
}

var errSilent = errors.New("the subscription does not receive its beat")

// subscription is one subscription to a node.
type subscription struct {
	l     *Listener
	f     *flow
	ps    wire.Subscription
	beat  string // the message that this subscription must receive
	heard *echo
	loop  *pace.Loop

	confirmed int  // number of confirmed channels
	up        bool // all channels are confirmed
	next      group
}

// subscribe runs one subscription until it fails or ctx ends. When it is confirmed, loop succeeds.
func (l *Listener) subscribe(ctx context.Context, f *flow, loop *pace.Loop) error {
	parent := ctx
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if err := l.check(ctx, f); err != nil {
		return err
	}

	ps, err := wire.Subscribe(ctx, f.c, l.channels...)
	if err != nil {
		return err
	}

	s := &subscription{l: l, f: f, ps: ps, heard: &echo{from: time.Now()}, loop: loop,
		beat: "beat " + strconv.FormatInt(time.Now().UnixNano(), 36) + "-" + strconv.FormatUint(ids.Add(1), 36)}
	defer func() { _ = s.ps.Close() }()

	var wg sync.WaitGroup
	wg.Go(func() {
		if err := l.watch(ctx, f, s.beat, s.heard); err != nil {
			cancel(err)
		}
	})
	// Close ends a Receive that waits on a silent connection.
	wg.Go(func() {
		<-ctx.Done()
		_ = s.ps.Close()
	})
	if len(l.patterns) > 0 {
		wg.Go(func() { l.followPatterns(ctx, f.c) })
	}

	defer wg.Wait()
	defer cancel(nil)

	defer s.end(parent)
	return s.receive(ctx)
}

// receive handles the messages of the subscription until it fails or ctx ends.
func (s *subscription) receive(ctx context.Context) error {
	for {
		m, err := wire.Receive(ctx, s.ps)
		if err != nil {
			return causeOr(ctx, err)
		}

		switch m := m.(type) {
		case *redis.Subscription:
			if s.confirmed++; s.confirmed == len(s.l.channels) {
				s.begin()
			}
		case *redis.Message:
			s.message(m)
		}
	}
}

// causeOr returns the reason for which ctx was cancelled, or err if ctx goes on.
func causeOr(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// begin reports that the subscription is up.
func (s *subscription) begin() {
	l := s.l
	s.up = true
	l.admit(s.f)
	l.alive.Add(1)
	l.o.Observer.Subscription()
	l.o.Logger.Info("subscribed", zap.String("redis", wire.Addr(s.f.c)))
	s.loop.Succeed()
	l.o.State.Subscribed()

	select {
	case s.f.soon <- struct{}{}:
	default: // full: the watch of the previous subscription did not receive it
	}
}

// end reports that the subscription has ended, unless that is because the Listener ends.
func (s *subscription) end(parent context.Context) {
	if !s.up {
		return
	}

	s.l.alive.Add(-1)
	if parent.Err() == nil {
		s.l.lost(s.f)
	}
}

func (s *subscription) message(m *redis.Message) {
	if m.Payload == s.beat {
		s.heard.now()
		return
	}

	if m.Channel != s.l.o.Space.Wake() {
		s.f.event(m.Payload)
	}

	s.l.message(m, &s.next)
}

var ids atomic.Uint64 // numbers the subscriptions of this process

// echo records when a subscription last received its beat. It uses the monotonic clock: setting the
// wall clock back would make a silence look short.
type echo struct {
	from time.Time
	last atomic.Int64 // since from
}

func (e *echo) now()                   { e.last.Store(int64(time.Since(e.from))) }
func (e *echo) silence() time.Duration { return time.Since(e.from) - time.Duration(e.last.Load()) }

// watch publishes a beat at intervals, and checks that the subscription receives the beats. It
// returns an error when the subscription must be replaced.
func (l *Listener) watch(ctx context.Context, f *flow, beat string, heard *echo) error {
	tick := time.NewTicker(l.o.Beat)
	defer tick.Stop()
	last := lookTimes{role: time.Now(), flags: time.Now()}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-f.soon:
			f.observe(ctx)
			continue
		case <-tick.C:
		}

		// go-redis does not notice a dead subscription, because it never waits for the answers to its PINGs.
		if silence := heard.silence(); silence > l.o.Silence {
			return fmt.Errorf("%w for %s", errSilent, silence.Round(time.Millisecond))
		}

		added, err := l.round(ctx, f, beat, &last)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}

		if added {
			l.o.State.Subscribed()
		}

		f.observe(ctx)
	}
}

// lookTimes are the times at which a node's role and flags were last read.
type lookTimes struct{ role, flags time.Time }

// round publishes a beat, the message by which the listener checks its subscription. If the node's role or notify
// flags are due to be read, that happens in the same round trip. added reports whether round has added missing flags.
func (l *Listener) round(ctx context.Context, f *flow, beat string, last *lookTimes) (added bool, err error) {
	var k look
	var echoed *redis.IntCmd
	pctx, cancel := context.WithTimeout(ctx, l.o.Silence)
	_, _ = f.c.Pipelined(pctx, func(pipe redis.Pipeliner) error { // each command has its own error
		echoed = pipe.Publish(pctx, l.o.Space.Wake(), beat)
		if time.Since(last.role) >= l.o.Check {
			last.role = time.Now()
			k.askRole(pctx, pipe)
		}

		// A node that refuses CONFIG is asked less often, because each refusal adds a line to its ACL log.
		if often := !f.noConfig.Load() && l.o.Assignment.ReadsFlags(wire.Addr(f.c)); often || time.Since(last.flags) >= l.o.Flags {
			last.flags = time.Now()
			k.askFlags(pctx, pipe)
		}

		return nil
	})
	cancel()
	if err := echoed.Err(); err != nil {
		return false, fmt.Errorf("publish the beat: %w", err)
	}

	return l.judge(ctx, f, k)
}
