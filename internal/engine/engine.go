package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"notifier/internal/adopt"
	"notifier/internal/alarm"
	"notifier/internal/api"
	"notifier/internal/dispatch"
	"notifier/internal/fleet"
	"notifier/internal/history"
	"notifier/internal/keys"
	"notifier/internal/layout"
	"notifier/internal/listener"
	"notifier/internal/metrics"
	"notifier/internal/notice"
	"notifier/internal/reconcile"
	"notifier/internal/replay"
	"notifier/internal/retry"
	"notifier/internal/route"
	"notifier/internal/schedule"
	"notifier/internal/sentinel"
	"notifier/internal/store"
	"notifier/internal/wire"
)

// ErrConfig is what errors wrap that better configuration would mend.
var ErrConfig = errors.New("configuration")

// Options of an Engine.
type Options struct {
	Conn   *wire.Conn
	Space  keys.Space
	Routes *route.Table
	// Handler makes the attempts of all routes.
	Handler     dispatch.Handler
	Instance    string
	Version     string
	Concurrency int
	Grace       time.Duration
	Retention   time.Duration
	Retain      int
	// RepeatWindow and RepeatBytes bound the tombstones: see [store.Options].
	RepeatWindow time.Duration
	RepeatBytes  int64
	// MaxBody is the longest payload of an adopted timer; zero = 256 KiB.
	MaxBody        int64
	ConfigureRedis bool
	// MakeKey: the service's own key is in Redis, and is made if there is none.
	MakeKey bool
	// Takeover is how long this instance is waited for whose connections are
	// gone; zero = until its leases end.
	Takeover time.Duration
	// Limits is told to the other instances: config.LimitsFleet or
	// config.LimitsInstance.
	Limits string
	// Hosts and Messages are those of callbacks; they may be nil.
	Hosts    Hosts
	Messages Messages
	// Confirm is what calls wait for that schedule or change notices, ConfirmSettle
	// what settles wait for.
	Confirm, ConfirmSettle wire.Confirm
	// Clients are the names of the clients of the configuration.
	Clients []string
	// Rights, if not nil, are checked before anything is written.
	Rights Rights
	// History is where what ends is kept; its DB is nil where there is none.
	History History
	// Drain is how long a stop waits for running handlers.
	Drain time.Duration
	// OutageEvery is how often an outage of Redis is told while it lasts; zero = 1 min.
	OutageEvery time.Duration
	// Alarm is what sweepers sleep with. A synctest bubble can only wake alarm.Portable.
	Alarm alarm.Kind
	// Subscriptions may be nil.
	Subscriptions Subscriptions
	// LogAttempts chooses the attempts that are logged.
	LogAttempts notice.LogAttempts
	// Tracer makes spans. Nil: there are none.
	Tracer trace.Tracer
	// Metrics may be nil.
	Metrics *metrics.Metrics
	Logger  *zap.Logger
}

// Hosts tells of the hosts that are called and of their limits.
type Hosts interface {
	fleet.Limits
	// Waiting is how many hosts of a route wait for slots.
	Waiting(*route.Route) int
	// Figures are those of the hosts that this instance publishes.
	Figures() []fleet.HostFigures
}

// Rights checks the rights of the service's user of Redis. An error that wraps ErrConfig ends
// Begin.
type Rights interface {
	Check(ctx context.Context) error
}

// Subscriptions is told of each subscription that begins. It must not block.
type Subscriptions interface{ Subscribed() }

// Messages takes what the limits of other instances tell.
type Messages interface{ Heard(from, text string) }

// Engine schedules, delivers and answers questions about notices.
type Engine struct {
	o Options

	since     time.Time
	store     *store.Store
	schedule  *schedule.Scheduler
	dispatch  *dispatch.Dispatcher
	reports   *dispatch.Reports
	listener  *listener.Listener
	janitor   *reconcile.Janitor
	adopter   *adopt.Adopter
	unadopted *unadopted
	shipper   *history.Shipper // nil without a history
	replays   *replay.Driver   // nil without a history
	fleet     *fleet.Fleet
	// assignment decides which of the work is this instance's.
	assignment *fleet.Assignment
	ledger     *ledger
	said       string // of the fleet in the log last; of the fleet's goroutine
	mail       chan message
	away       away
	coming     atomic.Int64
	sweepers   *sweepers
	places     chan struct{} // asks tendPlaces to look
	looks      *reconcile.Looks

	receivers   *receivers
	unconfirmed *unconfirmed

	events   atomic.Bool   // expired events are known to come
	keyspace atomic.Bool   // and those of routes that adopt, or no route does
	failed   chan struct{} // an operation on Redis has failed
	ready    chan struct{}
	once     sync.Once

	wrong error // the Options are
	// open is closed once the layout of the data is known. Until then the space has the
	// shards of the configuration only, so no call may name a key.
	open    chan struct{}
	trouble atomic.Pointer[error] // why it is not known yet
}

// New makes an Engine with all its parts. Until Run, or Begin, has learnt the layout of the
// data in Redis, each call is refused with wire.ErrUnavailable. Wrong Options are an error of
// Begin.
func New(o Options) *Engine {
	if o.MaxBody == 0 {
		o.MaxBody = 256 << 10
	}
	e := &Engine{o: o, ready: make(chan struct{}), open: make(chan struct{}), failed: make(chan struct{}, 1), places: make(chan struct{}, 1),
		since: time.Now(), mail: make(chan message, mailRoom), sweepers: newSweepers()}
	e.events.Store(true)
	e.keyspace.Store(true)
	e.receivers = newReceivers(e)
	e.unconfirmed = &unconfirmed{metrics: o.Metrics, logger: o.Logger}
	e.unadopted = newUnadopted(e, o.Logger)
	e.store = e.newStore()

	e.ledger = newLedger(o.Routes, o.Metrics)
	e.fleet, e.wrong = e.newFleet()
	e.assignment = fleet.NewAssignment(fleet.AssignmentOptions{Fleet: e.fleet, Routes: o.Routes, Space: e.store.Space(), Limits: o.Hosts,
		Concurrency: o.Concurrency, Cluster: o.Conn.Masters != nil, Sweeps: e.sweepers, Logger: o.Logger})

	e.newParts()
	if o.History.DB != nil {
		o.History.DB.Serve(e.historyOwner)
	}
	return e
}

func (e *Engine) newStore() *store.Store {
	o := e.o
	var mine []string
	for _, r := range o.Routes.All() {
		mine = append(mine, r.Prefix)
	}
	return store.New(store.Options{Client: o.Conn.UniversalClient, Space: o.Space, Cluster: o.Conn.Masters != nil, Nodes: o.Conn.Nodes, Prefixes: mine,
		Conn: o.Conn, Confirm: o.Confirm, ConfirmSettle: o.ConfirmSettle, OnUnconfirmed: e.unconfirmed.hear,
		Retention: o.Retention, Retain: o.Retain, RepeatWindow: o.RepeatWindow, RepeatBytes: o.RepeatBytes,
		OnError: e.failing, Watcher: watcher{e},
		History: o.History.most(), Host: e.host, OnEnded: e.ended, Adopts: e.adopts})
}

// adopts reports whether keys under a prefix may be plain timers. The prefix may be another
// configuration's: then its keys may be those of a route that adopts.
func (e *Engine) adopts(prefix string) bool {
	if r := e.o.Routes.Prefix(prefix); r != nil {
		return r.Adopt
	}
	return slices.ContainsFunc(e.o.Routes.All(), func(r *route.Route) bool {
		return r.Adopt && (keys.HasPrefix(prefix, r.Prefix) || keys.HasPrefix(r.Prefix, prefix))
	})
}

// newParts makes the parts that work on notices.
func (e *Engine) newParts() {
	o, space, cluster := e.o, e.store.Space(), e.o.Conn.Masters != nil
	e.shipper, e.replays = e.newShipper(space.Places()), e.newDriver()
	e.looks = reconcile.NewLooks(e.store, cluster)
	e.adopter = adopt.New(adopt.Options{Store: e.store, Routes: o.Routes, Space: space, Cluster: e.cluster(), MaxBody: o.MaxBody,
		Observer: o.Metrics, Events: events{e}, Logger: o.Logger})

	e.dispatch = dispatch.New(dispatch.Options{Store: e.store, Routes: o.Routes.All(), Shards: space, Handler: o.Handler, Total: o.Concurrency,
		Grace: o.Grace, SettleWait: o.ConfirmSettle.Wait(), Fleet: e.fleet, Health: e.receivers.tracker, Observer: o.Metrics, Strays: strays{e},
		Tracer: o.Tracer, Logger: o.Logger, LogAttempts: o.LogAttempts})
	e.reports = &dispatch.Reports{Store: e.store, Notices: e, Observer: o.Metrics, Health: e.receivers.tracker, Logger: o.Logger,
		LogAttempts: o.LogAttempts, Ahead: cluster}

	limit := time.Duration(0)
	if o.Conn.Nodes != nil {
		limit = answerLimit
	}
	e.schedule = schedule.New(schedule.Options{Store: e.store, Routes: o.Routes, Space: space, Timeout: limit, Wait: o.Confirm.Wait(),
		Hints: e.dispatch, Observer: o.Metrics})

	e.listener = listener.New(listener.Options{Client: o.Conn.UniversalClient, Cluster: e.cluster(), DB: o.Conn.DB, Space: space, Routes: o.Routes,
		Configure: o.ConfigureRedis, Hints: signals{e}, Wakes: signals{e}, State: signals{e}, Assignment: e.assignment, Grace: o.Grace,
		Observer: o.Metrics, Logger: o.Logger})
	e.janitor = reconcile.NewJanitor(reconcile.JanitorOptions{Store: e.store, Registry: e.heartbeats(), Routes: o.Routes, Shards: space, Work: signals{e},
		Assignment: e.assignment, Logger: o.Logger})
}

// startWait is how long calls wait for an Engine that has just been made: no
// call need fail because it came a millisecond before Redis had answered.
const startWait = 500 * time.Millisecond

// isOpen reports whether the layout of the data is known.
func (e *Engine) isOpen() bool {
	select {
	case <-e.open:
		return true
	default:
		return false
	}
}

// known is nil once calls can be made. A call that comes just after the start waits for that.
func (e *Engine) known(ctx context.Context) error {
	if e.isOpen() {
		return nil
	}
	if left := startWait - time.Since(e.since); left > 0 {
		select {
		case <-e.open:
			return nil
		case <-ctx.Done():
		case <-time.After(left):
		}
	}
	if why := e.trouble.Load(); why != nil && (errors.Is(*why, wire.ErrLogin) || errors.Is(*why, wire.ErrRights)) {
		return *why // which says what to do
	}
	return wire.ErrNotBegun
}

// watcher is told of changes of the layout.
type watcher struct{ *Engine }

// SideChanged implements [layout.Watcher].
func (w watcher) SideChanged(side layout.Side) { w.setSide(side) }

// Grow implements [layout.Watcher].
func (w watcher) Grow(places int) (grown func()) { return w.grow(places) }

// LayoutChanged implements [layout.Watcher].
func (w watcher) LayoutChanged(err error) {
	if err == nil {
		w.o.Logger.Info("the layout of the data in Redis is right again")
		return
	}
	if w.isOpen() {
		w.o.Logger.Error("another Redis answers, with data of another layout; nothing is written there", zap.Error(err))
	}
}

// Subscribed is closed when the first subscription has begun.
func (e *Engine) Subscribed() <-chan struct{} { return e.ready }

// Run delivers until ctx ends, then stops in order: claims end first, running
// Handlers are waited for and settled, the subscription ends, and the instance
// leaves the fleet last: until then it holds its part of limits. It
// returns nil after an orderly stop, and layout.ErrLayout, without having
// delivered anything, if the data in Redis were written with other settings.
func (e *Engine) Run(ctx context.Context) error {
	defer e.watchNodes(ctx)()
	if err := e.Begin(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	if e.o.MakeKey {
		if _, err := e.store.Key(ctx); err != nil {
			e.o.Logger.Warn("the service's own key is not to be had yet: listings of more than a page are refused until it is", zap.Error(err))
		}
	}
	defer e.join(ctx)()
	// The loops outlive ctx by the drain: until then their work is harmless.
	loops, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	g, loops := errgroup.WithContext(loops)
	g.Go(func() error { return e.listener.Run(loops) })
	g.Go(func() error { return e.janitor.Run(loops) })
	g.Go(func() error { return e.adopter.Run(loops) })
	g.Go(func() error { return e.watchOutages(loops) })
	g.Go(func() error { return e.unadopted.Run(loops) })
	g.Go(func() error { return e.keepMinutes(loops) })
	g.Go(func() error { return e.keepHistory(loops) })
	g.Go(func() error { return e.tendAudit(loops) })
	g.Go(func() error { return e.receivers.publish(loops) })
	g.Go(func() error { return e.receivers.scan(loops) })
	g.Go(func() error { return e.driveReplays(loops) })
	g.Go(func() error { return e.tendPlaces(loops) })
	g.Go(func() error { return e.sweepers.Run(loops) })
	select {
	case <-ctx.Done():
	case <-loops.Done(): // a loop failed
	}
	e.fleet.Retire()
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.o.Drain)
	defer cancel()
	if left := e.dispatch.Drain(drain, 3*time.Second); left > 0 {
		e.o.Logger.Error("stopped with attempts unsettled; they are made again when their lease has lapsed", zap.Int("attempts", left))
	}
	stop()
	return g.Wait()
}

// Close refuses schedule calls from now on, and waits for those that are under
// way: all who call must be done before the connection is closed. They may come
// after Run has ended, as those of an API that answers its last calls.
func (e *Engine) Close(ctx context.Context) {
	if e.isOpen() {
		e.schedule.Close(ctx)
		e.store.Flush()
	}
}

// Begin waits for Redis and learns the layout of its data; those that were
// written with other settings are refused with layout.ErrLayout. Run does it
// first.
func (e *Engine) Begin(ctx context.Context) error {
	if e.wrong != nil {
		return e.wrong
	}

	again, o := retry.Loop{Min: 50 * time.Millisecond, Max: 2 * time.Second}, e.outage()
	for !e.isOpen() {
		err := e.learn(ctx)
		if err == nil {
			e.populate()
			close(e.open)
			o.over()
			break
		}
		if errors.Is(err, layout.ErrLayout) || errors.Is(err, ErrConfig) {
			return err
		}
		e.trouble.Store(&err)
		o.failed(err)
		if !again.Wait(ctx, err) {
			return ctx.Err()
		}
	}
	return nil
}

// populate makes room for all shards that are known now.
func (e *Engine) populate() {
	places := e.store.Space().Places()
	e.dispatch.Grow(places)
	if e.shipper != nil {
		e.shipper.Grow(places)
	}
	e.sweepMore()
	e.dispatch.SetParts(e.assignment.Parts())
}

// trouble says in a few words why Redis is of no use: what it refuses has a
// remedy of its own.
func trouble(err error) string {
	for _, kind := range []error{wire.ErrLogin, wire.ErrRights, wire.ErrFull} {
		if errors.Is(err, kind) {
			return kind.Error()
		}
	}
	if errors.Is(err, sentinel.ErrFailover) {
		return "sentinels are replacing the master: nothing is sent to it meanwhile"
	}
	return "redis does not answer"
}

// learn learns the layout of the data, and makes this instance known to Redis.
func (e *Engine) learn(ctx context.Context) error {
	if e.o.Rights != nil {
		if err := e.o.Rights.Check(ctx); err != nil {
			return err
		}
	}
	space, warning, err := layout.Discover(ctx, e.o.Conn, e.o.Space, e.o.Conn.Masters != nil)
	if err != nil {
		return err
	}
	e.store.Enter(space)
	if err := e.store.Wire().Detect(ctx); err != nil {
		return err
	}
	if err := e.synced(ctx); err != nil {
		return err
	}
	if err := e.store.Learn(ctx); err != nil {
		if errors.Is(err, layout.ErrLayout) {
			// Another instance was first: the next turn takes what it wrote, or refuses it.
			return fmt.Errorf("%w: %s", wire.ErrUnavailable, err.Error())
		}
		return err
	}
	if warning != "" {
		e.o.Logger.Warn(warning)
	}
	if err := e.store.CopyPaused(ctx); err != nil && !errors.Is(err, wire.ErrFull) && (e.o.Conn.Masters == nil || !errors.Is(err, wire.ErrUnavailable)) {
		return err // in a cluster the shards' copies say it while the node of the first is away
	}
	return nil
}

// synced refuses fsync where a server does not bear it. Afterwards each new
// connection is asked the same, by the store.
func (e *Engine) synced(ctx context.Context) error {
	name := "NOTIFIER_DURABILITY"
	if !e.o.Confirm.Fsync {
		name += "_SETTLE"
	}
	if !e.o.Confirm.Fsync && !e.o.ConfirmSettle.Fsync {
		return nil
	}
	one := func(ctx context.Context, c redis.Cmdable) error {
		err := wire.Synced(ctx, c)
		if errors.Is(err, wire.ErrNotSynced) {
			return fmt.Errorf("%w: %s=fsync: %w", ErrConfig, name, err)
		}
		if err = wire.Wrap("info", err); e.o.Conn.Masters != nil && errors.Is(err, wire.ErrUnavailable) {
			return nil // it is asked when there is a connection
		}
		return err
	}
	if e.o.Conn.Masters == nil {
		return one(ctx, e.o.Conn)
	}
	return e.o.Conn.Masters(ctx, func(ctx context.Context, c *redis.Client) error { return one(ctx, c) })
}

// Key is the service's own key, as it is kept in Redis.
func (e *Engine) Key(ctx context.Context) ([]byte, error) {
	if err := e.known(ctx); err != nil {
		return nil, err
	}
	return e.store.Key(ctx)
}

// Store is the engine's Redis.
func (e *Engine) Store() *store.Store { return e.store }

// Ready asks Redis and the subscription.
func (e *Engine) Ready(ctx context.Context) api.Readiness {
	r := api.Readiness{Ready: true}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	not := func(reason string) api.Readiness {
		r.Ready = false
		r.Reasons = append(r.Reasons, reason)
		return r
	}
	if !e.isOpen() {
		if err := e.o.Conn.Ping(ctx).Err(); err != nil {
			return not(trouble(wire.Wrap("ping", err)))
		}
		reason := "redis has just come back"
		if err := e.trouble.Load(); err != nil {
			reason = trouble(*err)
		}
		return not("not begun: " + reason)
	}
	if err := e.store.Known(ctx); errors.Is(err, layout.ErrLayout) {
		not(err.Error())
	} else if err != nil {
		not(trouble(err))
	}
	for _, reason := range e.apart(ctx) {
		r.Degraded = true
		r.Reasons = append(r.Reasons, reason)
	}
	if e.listener.Alive() == 0 {
		r.Degraded = true
		r.Reasons = append(r.Reasons, "no subscription: delivering by sweeps")
	}
	if !e.events.Load() {
		r.Degraded = true
		r.Reasons = append(r.Reasons, "expired events do not arrive: delivering by sweeps; the log says why")
	}
	if !e.keyspace.Load() {
		r.Degraded = true
		r.Reasons = append(r.Reasons, "no keyspace events: plain timers are looked for each second; doctor names what the user must be granted")
	}
	if n := e.janitor.Orphans(); n > 0 {
		r.Reasons = append(r.Reasons, notice.Count(n, "notice")+" under prefixes that no route covers")
	}
	return r
}
