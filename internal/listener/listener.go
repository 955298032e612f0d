package listener

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/retry"
	"notifier/internal/route"
)

// Observer hears what happens.
type Observer interface {
	Event(result notice.EventResult)
	Subscription()
}

// Cluster are the masters of a cluster.
type Cluster interface {
	// Masters calls f for each master.
	Masters(ctx context.Context, f func(ctx context.Context, c *redis.Client) error) error
	// Master is the address of the master that holds a key.
	Master(ctx context.Context, key string) string
}

// Hints takes keys that may have something to do. It must not block.
type Hints interface {
	// Expired takes a key that has expired; false if there is no room.
	Expired(r *route.Route, key string) bool
	// Keyspace takes an event on a key of a route that adopts.
	Keyspace(r *route.Route, key, event string)
}

// Wakes takes the messages of the wake channel. It must not block.
type Wakes interface {
	// Wake takes a partition with a notice that is due at an instant, which may be earlier
	// than the known ones.
	Wake(p keys.Partition, due time.Time)
	// Paused is called when the set of paused routes has changed.
	Paused()
	// Places is called when there are other shards.
	Places()
}

// State takes what becomes known of events. It must not block.
type State interface {
	// Subscribed is called when a subscription has begun, or when flags that had gone are
	// back: any event may have been missed before.
	Subscribed()
	// Events is called each time that expired events stop arriving (false) or arrive again
	// (true). Until the first call they arrive.
	Events(ok bool)
	// Adopting says whether the keyspace events of routes that adopt arrive from now on
	// (true: they may have been missed before), or that some do not.
	Adopting(ok bool)
}

// Assignment decides which instance claims a notice whose timer has expired, and which one
// reads flags. *[fleet.Assignment] is one. Instances must agree on it.
type Assignment interface {
	// Leaves reports whether a key that has expired is left to another instance.
	Leaves(r *route.Route, key string) bool
	// ForGroup reports whether the events of a route that are announced for the instance of
	// an id are this one's; ok is false where the announcement does not count, and Leaves
	// decides.
	ForGroup(r *route.Route, id string) (mine, ok bool)
	// ReadsFlags reports whether this instance reads the notify flags of the node at addr
	// with each beat.
	ReadsFlags(addr string) bool
}

// alone is the Assignment of one instance.
type alone struct{}

func (alone) Leaves(*route.Route, string) bool           { return false }
func (alone) ForGroup(*route.Route, string) (bool, bool) { return false, false }
func (alone) ReadsFlags(string) bool                     { return true }

// Options of a Listener.
type Options struct {
	Client  redis.UniversalClient
	Cluster Cluster // nil outside a cluster
	DB      int
	Space   keys.Space
	Routes  *route.Table
	// Configure: add Ex (and what adoption needs) to notify-keyspace-events.
	Configure bool

	Hints Hints
	Wakes Wakes
	State State
	// Assignment may be nil: this instance is alone.
	Assignment Assignment
	Observer   Observer
	Logger     *zap.Logger

	// Grace is how long the event of a touched timer may take; zero = 50 ms.
	Grace time.Duration
	// Beat is how often a subscription must hear itself, and Silence how long
	// it may not; zero = 1 s and 3 s. Check is how often the role is read; zero = 5 s.
	// Flags is how often an instance reads the flags of a node for which another is
	// preferred, or which refuses CONFIG; zero = 10 s. Retry is how long it waits after a
	// subscription that failed, twice as long after each further one and a second at
	// most; zero = 50 ms.
	Beat, Silence, Check, Flags, Retry time.Duration
}

// Listener follows the events of all masters. Use New.
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
	keyspace map[string]bool // address → those of routes that adopt come
	denied   bool            // that some are refused has been said
	again    chan struct{}   // closed by Again
}

// New makes a Listener.
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

// Alive is how many subscriptions hear their own beat.
func (l *Listener) Alive() int { return int(l.alive.Load()) }

// Again ends the waits before a subscription that failed is made anew, and before
// masters are looked for: they may answer now.
func (l *Listener) Again() {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.again)
	l.again = make(chan struct{})
}

// waits is closed by the next Again.
func (l *Listener) waits() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.again
}

// Run follows events until ctx ends. It returns nil then.
func (l *Listener) Run(ctx context.Context) error {
	if l.o.Cluster == nil {
		c, ok := l.o.Client.(*redis.Client)
		if !ok {
			return fmt.Errorf("listener: %T needs Cluster", l.o.Client)
		}
		l.follow(ctx, c)
		return nil
	}
	return l.runCluster(ctx)
}

// runCluster keeps one follower for each master, as masters come and go.
func (l *Listener) runCluster(ctx context.Context) error {
	type follower struct {
		cancel context.CancelFunc
		done   chan struct{}
		client *redis.Client
	}
	running := map[string]*follower{}
	stop := func(addr string) {
		running[addr].cancel()
		<-running[addr].done
		delete(running, addr)
	}
	defer func() {
		for addr := range running {
			stop(addr)
		}
	}()
	for {
		again := l.waits()
		seen := map[string]*redis.Client{}
		var mu sync.Mutex
		err := l.o.Cluster.Masters(ctx, func(_ context.Context, c *redis.Client) error {
			mu.Lock()
			seen[c.Options().Addr] = c
			mu.Unlock()
			return nil
		})
		if err == nil {
			for addr, f := range running {
				if seen[addr] != f.client {
					stop(addr)
				}
			}
		}
		for addr, c := range seen {
			if running[addr] != nil {
				continue
			}
			fctx, cancel := context.WithCancel(ctx)
			f := &follower{cancel: cancel, done: make(chan struct{}), client: c}
			running[addr] = f
			go func() {
				defer close(f.done)
				l.follow(fctx, c)
			}()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-again:
		case <-time.After(l.o.Beat):
		}
	}
}

// follow keeps a subscription on one node until ctx ends.
func (l *Listener) follow(ctx context.Context, c *redis.Client) {
	f := l.newFlow(c)
	defer l.forget(f)
	loop := retry.Loop{Min: l.o.Retry, Max: max(time.Second, l.o.Retry), Logger: l.o.Logger, Failure: "subscription ended; it is made anew"}
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
		case <-time.After(loop.Fail(err, zap.String("redis", c.Options().Addr))):
		}
	}
}

var errSilent = errors.New("the subscription does not hear its own beat")

// subscribe runs one subscription until it fails or ctx ends. Once confirmed, it is a
// success of loop.
func (l *Listener) subscribe(ctx context.Context, f *flow, loop *retry.Loop) error {
	c, parent := f.c, ctx
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if err := l.check(ctx, f); err != nil {
		return err
	}
	ps := c.Subscribe(ctx, l.channels...)
	defer func() { _ = ps.Close() }()
	beat := "beat " + strconv.FormatInt(time.Now().UnixNano(), 36) + "-" + strconv.FormatUint(ids.Add(1), 36)
	heard := &echo{from: time.Now()}

	var wg sync.WaitGroup
	wg.Go(func() {
		if err := l.watch(ctx, f, beat, heard); err != nil {
			cancel(err)
		}
	})
	// Close is what ends a Receive that waits for a silent connection.
	wg.Go(func() {
		<-ctx.Done()
		_ = ps.Close()
	})
	if len(l.patterns) > 0 {
		wg.Go(func() { l.followPatterns(ctx, c) })
	}
	defer wg.Wait()
	defer cancel(nil)

	confirmed, up, next := 0, false, group{}
	defer func() {
		if !up {
			return
		}
		l.alive.Add(-1)
		if parent.Err() == nil {
			l.lost(f)
		}
	}()
	for {
		m, err := ps.Receive(ctx)
		if err != nil {
			if cause := context.Cause(ctx); cause != nil {
				return cause
			}
			return err
		}
		switch m := m.(type) {
		case *redis.Subscription:
			if confirmed++; confirmed == len(l.channels) {
				up = true
				l.admit(f)
				l.alive.Add(1)
				l.o.Observer.Subscription()
				l.o.Logger.Info("subscribed", zap.String("redis", c.Options().Addr))
				loop.Succeed()
				l.o.State.Subscribed()
				select {
				case f.soon <- struct{}{}:
				default: // the watch of the last subscription has left it
				}
			}
		case *redis.Message:
			if m.Payload == beat {
				heard.now()
				continue
			}
			if m.Channel != l.o.Space.Wake() {
				f.event(m.Payload)
			}
			l.message(m, &next)
		}
	}
}

var ids atomic.Uint64 // tells this process's subscriptions apart

// echo notes when a subscription heard its beat last, by the clock that never
// jumps: a wall clock that is set back would make silence look short.
type echo struct {
	from time.Time
	last atomic.Int64 // since from
}

func (e *echo) now()                   { e.last.Store(int64(time.Since(e.from))) }
func (e *echo) silence() time.Duration { return time.Since(e.from) - time.Duration(e.last.Load()) }

// watch publishes the beat and looks for its echo; it ends with an error when
// the subscription must be made anew. The node's role and flags are read in the same
// round trip. A node that refuses CONFIG is asked less often: each refusal is counted in its
// ACL log.
func (l *Listener) watch(ctx context.Context, f *flow, beat string, heard *echo) error {
	c := f.c
	tick := time.NewTicker(l.o.Beat)
	defer tick.Stop()
	checked, read := time.Now(), time.Now()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-f.soon:
			f.observe(ctx)
			continue
		case <-tick.C:
		}
		if silence := heard.silence(); silence > l.o.Silence {
			return fmt.Errorf("%w for %s", errSilent, silence.Round(time.Millisecond))
		}
		var k look
		var echoed *redis.IntCmd
		pctx, cancel := context.WithTimeout(ctx, l.o.Silence)
		_, _ = c.Pipelined(pctx, func(pipe redis.Pipeliner) error { // each command has its own error
			echoed = pipe.Publish(pctx, l.o.Space.Wake(), beat)
			if time.Since(checked) >= l.o.Check {
				checked = time.Now()
				k.askRole(pctx, pipe)
			}
			if often := !f.noConfig.Load() && l.o.Assignment.ReadsFlags(c.Options().Addr); often || time.Since(read) >= l.o.Flags {
				read = time.Now()
				k.askFlags(pctx, pipe)
			}
			return nil
		})
		cancel()
		if err := echoed.Err(); err != nil && ctx.Err() == nil {
			return fmt.Errorf("publish the beat: %w", err)
		}
		added, err := l.judge(ctx, f, k)
		if err != nil && ctx.Err() == nil {
			return err
		}
		if added {
			l.o.State.Subscribed()
		}
		f.observe(ctx)
	}
}

// group are events that are said to come next, and whom they are for. It is
// forgotten with the connection.
type group struct {
	id, prefix string
	left       int
}

// message hands one message over.
func (l *Listener) message(m *redis.Message, next *group) {
	switch {
	case m.Pattern != "":
		key, ok := keys.KeyspaceKey(m.Channel)
		if r := l.routeOf(key); ok && r != nil && r.Adopt {
			l.o.Hints.Keyspace(r, key, m.Payload)
		}
	case m.Channel == l.o.Space.Wake():
		if id, n, prefix, ok := keys.ParseFor(m.Payload); ok {
			*next = group{id, prefix, n}
			return
		}
		l.wake(m.Payload)
	default:
		l.expired(m.Payload, next)
	}
}

func (l *Listener) routeOf(key string) *route.Route {
	if !keys.Valid(key) {
		return nil
	}
	return l.o.Routes.Match(key)
}

func (l *Listener) expired(key string, next *group) {
	if keys.HasPrefix(key, l.o.Space.Namespace) {
		l.o.Observer.Event(notice.EventForeign)
		return
	}
	if !keys.Valid(key) {
		l.unfit.tell(l.o.Routes, key, l.o.Logger)
		l.o.Observer.Event(notice.EventForeign)
		return
	}
	r := l.o.Routes.Match(key)
	switch {
	case r == nil:
		l.o.Observer.Event(notice.EventUnrouted)
	case l.leaves(r, key, next):
		l.o.Observer.Event(notice.EventLeft)
	case l.o.Hints.Expired(r, key):
		l.o.Observer.Event(notice.EventDispatched)
	default:
		l.o.Observer.Event(notice.EventDropped)
	}
}

// leaves reports whether an event is left to another instance.
func (l *Listener) leaves(r *route.Route, key string, next *group) bool {
	if next.left > 0 && next.prefix == r.Prefix {
		next.left--
		if mine, ok := l.o.Assignment.ForGroup(r, next.id); ok {
			return !mine
		}
	}
	return l.o.Assignment.Leaves(r, key)
}

// wake reads "<due ms> <shard> <prefix>", "paused <prefix>" and "places <n>". Others are
// other instances' beats, or nobody's.
func (l *Listener) wake(text string) {
	first, rest, _ := strings.Cut(text, " ")
	switch first {
	case "paused":
		l.o.Wakes.Paused()
		return
	case "places":
		l.o.Wakes.Places()
		return
	}
	ms, err := strconv.ParseInt(first, 10, 64)
	if err != nil {
		return
	}
	shard, prefix, _ := strings.Cut(rest, " ")
	n, err := strconv.Atoi(shard)
	if err != nil || n < 0 || n >= l.o.Space.Places() {
		return
	}
	l.o.Wakes.Wake(keys.Partition{Prefix: prefix, Shard: n}, time.UnixMilli(ms))
}
