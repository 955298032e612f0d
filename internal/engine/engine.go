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

	"notifier/internal/dispatch"
	"notifier/internal/fleet"
	"notifier/internal/history"
	"notifier/internal/intake"
	"notifier/internal/jobs"
	"notifier/internal/keys"
	"notifier/internal/listener"
	"notifier/internal/notice"
	"notifier/internal/pace"
	"notifier/internal/receivers"
	"notifier/internal/reconcile"
	"notifier/internal/route"
	"notifier/internal/seal"
	"notifier/internal/store"
	"notifier/internal/tracing"
	"notifier/internal/vault"
	"notifier/internal/wire"
)

// ErrConfig is wrapped by errors that a change of the configuration fixes.
var ErrConfig = errors.New("configuration")

// Options configures an Engine.
type Options struct {
	Conn   *wire.Conn
	Space  keys.Space
	Routes *route.Table
	// Handler makes the attempts of all routes.
	Handler     dispatch.Handler
	Instance    string
	Version     string
	Concurrency int
	// SealKeys wrap the keys that seal notices; nil = there are none. SealKeep is how long unused keys stay; zero = for ever.
	SealKeys *seal.ServiceKeys
	SealKeep time.Duration
	// KeyAge is how long a key of sealed notices is used after it was read; zero = vault.KeyAge. All instances need the same.
	KeyAge    time.Duration
	Grace     time.Duration
	Retention time.Duration
	Retain    int
	// RepeatWindow and RepeatBytes bound the tombstones: see [store.Options].
	RepeatWindow time.Duration
	RepeatBytes  int64
	// MaxBody is the maximum length of the payload of an adopted timer; zero = 256 KiB.
	MaxBody        int64
	ConfigureRedis bool
	// MakeKey creates the service's key in Redis if there is none.
	MakeKey bool
	// Takeover is how long after its last heartbeat the claims of an instance without connections
	// are reclaimed; zero = when their leases expire.
	Takeover time.Duration
	// Limits is published to the other instances: route.LimitsFleet or route.LimitsInstance.
	Limits string
	// Hosts and Messages connect to the callback handler; they may be nil.
	Hosts    Hosts
	Messages Messages
	// Confirm is the confirmation that calls wait for which schedule or change notices,
	// ConfirmSettle that of settles.
	Confirm, ConfirmSettle wire.Confirm
	// Clients are the names of the configured clients.
	Clients []string
	// Owners are those of them that schedule notices, with their prefixes.
	Owners []receivers.Owner
	// Rights, unless nil, are checked before the first write.
	Rights Rights
	// History is the database for finalized notices; without one its DB is nil.
	History History
	// Drain is the time limit for running handlers at a stop.
	Drain time.Duration
	// OutageEvery is how often a lasting Redis outage is logged; zero = 1 min.
	OutageEvery time.Duration
	// Alarm is the kind of timer that sweepers use. A synctest bubble can only wake pace.Portable.
	Alarm pace.Kind
	// AlarmRoute is the address that gets what Redis cannot carry; nil = none.
	AlarmRoute *route.Route
	// PublicURL is the address of the pages for people, without a final slash; empty = not known.
	PublicURL string
	// Subscriptions may be nil.
	Subscriptions Subscriptions
	// LogAttempts selects the attempts that are logged.
	LogAttempts notice.LogAttempts
	// Taps publishes copies of attempts, unless it is nil.
	Taps *tracing.Publisher
	// Tracer creates spans, unless it is nil.
	Tracer trace.Tracer
	// Metrics may be nil: then only what heartbeats and pages show is counted.
	Metrics Metrics
	Logger  *zap.Logger
	// Log is the writer of the log; it may be nil.
	Log Log
}

// Hosts describes the called hosts and their limits.
type Hosts interface {
	fleet.Limits
	// Waiting returns the number of hosts of a route that wait for slots.
	Waiting(*route.Route) int
	// Figures returns the hosts' figures that this instance publishes.
	Figures() []fleet.HostFigures
}

// Rights checks the permissions of the service's Redis user. An error that wraps ErrConfig ends
// Begin.
type Rights interface {
	Check(ctx context.Context) error
}

// Messages receives the messages of other instances about limits.
type Messages interface{ Receive(from, text string) }

// Engine schedules and delivers notices, and answers calls on them.
type Engine struct {
	o Options

	since     time.Time
	store     *store.Store
	schedule  *intake.Scheduler
	vault     *vault.Vault
	sealed    sealed
	dispatch  *dispatch.Dispatcher
	reports   *dispatch.Reports
	listener  *listener.Listener
	janitor   *reconcile.Janitor
	hooks     *reconcile.Hooks
	adopter   *intake.Adopter
	unadopted *unadopted
	shipper   *history.Shipper // nil without a history
	replays   *jobs.Replayer   // nil without a history
	redirects *jobs.Changer
	eraser    *jobs.Eraser
	fleet     *fleet.Fleet
	// assignment decides which part of the work this instance does.
	assignment    *fleet.Assignment
	ledger        *ledger
	settings      map[string]string // digests of the settings of routes, by name
	logged        string            // last logged state of the fleet; used only by the fleet's goroutine
	unlike        map[string]bool   // prefixes of handlers for which compareHandlers found other settings; as logged
	mail          chan message
	away          away
	coming        atomic.Int64
	sweepers      *sweepers
	shardsChanged chan struct{} // wakes tendShards
	looks         *reconcile.Inspections

	hub         *tracing.Hub
	holds       *receivers.Holds
	rules       *receivers.Rules
	walker      *receivers.Walker
	receivers   *receiverHealth
	unconfirmed *unconfirmed
	foreign     *foreignKeys
	losses      *losses
	full        *full
	alarms      *alarms // nil = nobody is told
	dead        *deadCounts

	events   atomic.Bool   // expired events arrive
	keyspace atomic.Bool   // keyspace events of adopting routes arrive, or no route adopts
	failed   chan struct{} // an operation on Redis has failed
	ready    chan struct{}
	once     sync.Once

	wrong error // error of the Options
	// open is closed when the layout of the data is known. Until then only the configured shards
	// are known, so no call may compute the shard of a key.
	open    chan struct{}
	trouble atomic.Pointer[error] // why open is not closed yet
}

// New returns an Engine with all its parts. Each call is refused with wire.ErrUnavailable until Run
// or Begin knows the layout of the data in Redis. Begin returns the error of wrong Options.
func New(o Options) *Engine {
	if o.MaxBody == 0 {
		o.MaxBody = 256 << 10
	}

	if o.Metrics == nil {
		o.Metrics = fleet.NewCounters(o.Routes.All())
	}

	e := &Engine{o: o, ready: make(chan struct{}), open: make(chan struct{}), failed: make(chan struct{}, 1),
		shardsChanged: make(chan struct{}, 1), since: time.Now(), mail: make(chan message, mailRoom), sweepers: newSweepers()}
	e.events.Store(true)
	e.keyspace.Store(true)
	e.receivers = newReceivers(e)
	e.unconfirmed = &unconfirmed{metrics: o.Metrics, logger: o.Logger}
	e.foreign = &foreignKeys{engine: e, logged: map[string]time.Time{}, since: map[string]int{}}
	e.unadopted = newUnadopted(e, o.Logger)
	e.losses, e.full, e.dead = newLosses(o.Metrics, o.Logger), &full{engine: e, now: time.Now}, newDeadCounts()
	e.alarms = newAlarms(&o)
	e.losses.alarms = e.alarms
	e.store = e.newStore()
	e.holds = receivers.NewHolds(e.store.Layout)
	e.holds.Owners = o.Owners

	e.ledger, e.settings = newLedger(o.Routes, o.Metrics), settingsOf(o.Routes)
	e.fleet, e.wrong = e.newFleet()
	e.assignment = fleet.NewAssignment(fleet.AssignmentOptions{Fleet: e.fleet, Routes: o.Routes, Space: e.store.Space(), Limits: o.Hosts,
		Concurrency: o.Concurrency, Cluster: o.Conn.Masters != nil, Sweeper: e.sweepers, Logger: o.Logger})

	e.rules = receivers.NewRules(receivers.RulesOptions{Holds: e.holds, Health: &receivers.HealthStore{Wire: e.store.Wire(), Rules: true},
		Routes: o.Routes, Mine: e.assignment, Author: e.maker, Changed: e.changedByRule, Find: e.Find, Logger: o.Logger})
	e.newParts()
	e.hub = tracing.NewHub(tracing.HubOptions{Store: tracing.NewTapStore(e.store.Wire()), Instances: e.alive, Share: e.share(tracing.MaxOfAll),
		Observer: o.Metrics, Logger: o.Logger})
	if o.History.DB != nil {
		o.History.DB.Serve(e.historyOwner)
		o.History.DB.FollowLost(e.losses.isGone, func(from string) {
			o.Logger.Warn("the owner of the history has lost its data, claimed the history for the data in Redis", zap.String("from", from))
		})
	}

	return e
}

func (e *Engine) newStore() *store.Store {
	o := e.o
	var mine []string
	for _, r := range o.Routes.All() {
		mine = append(mine, r.Prefix)
	}

	return store.New(store.Options{Client: o.Conn.Commander, Space: o.Space, Cluster: o.Conn.Masters != nil, Nodes: o.Conn.Nodes,
		Prefixes: mine, Handles: e.handles(), Conn: o.Conn, Confirm: o.Confirm, ConfirmSettle: o.ConfirmSettle, Observer: writes{e},
		Retention: o.Retention, Retain: o.Retain, RepeatWindow: o.RepeatWindow, RepeatBytes: o.RepeatBytes,
		Watcher: watcher{e},
		History: o.History.most(), Host: e.host, Adopts: e.adopts})
}

// newParts creates the parts that work on notices.
func (e *Engine) newParts() {
	o, space, cluster := e.o, e.store.Space(), e.o.Conn.Masters != nil
	e.vault = e.newVault()
	e.shipper, e.replays = e.newShipper(space.Places()), e.newDriver()
	e.redirects = jobs.NewChanger(jobs.ChangerOptions{Store: e.jobStore(), Routes: o.Routes, Logger: o.Logger})
	e.looks = reconcile.NewInspections(e.store, e.store.Timers, cluster)
	e.eraser = jobs.NewEraser(jobs.EraserOptions{Store: e.store, DB: o.History.DB, Notices: erasable{e}, Logger: o.Logger})
	e.adopter = intake.NewAdopter(intake.AdopterOptions{Store: intake.Redis{Store: e.store}, Routes: o.Routes, Space: space,
		Cluster: e.cluster(), MaxBody: o.MaxBody, Observer: o.Metrics, Events: events{e}, Logger: o.Logger})

	e.dispatch = dispatch.New(dispatch.Options{Store: e.store, Timers: e.store.Timers, Routes: o.Routes.All(), Shards: space,
		Handler: o.Handler, Total: o.Concurrency, Grace: o.Grace, SettleWait: o.ConfirmSettle.Wait(), Fleet: e.fleet, Holds: e.holds,
		ForWorkers: e.isForWorkers, Redirect: func(c *store.Claimed) { jobs.ApplyRedirects(o.Routes, c) },
		Vault: e.vault, Health: e.receivers.tracker, Rules: e.rules, Observer: o.Metrics, Strays: strays{e}, Tracer: o.Tracer, Logger: o.Logger,
		LogAttempts: o.LogAttempts})
	e.reports = &dispatch.Reports{Store: e.store, Notices: e, Observer: o.Metrics, Health: e.receivers.tracker, Logger: o.Logger,
		LogAttempts: o.LogAttempts, Vault: e.vault, Ahead: cluster, Now: e.Now}

	limit := time.Duration(0)
	if o.Conn.Nodes != nil {
		limit = answerLimit
	}

	e.schedule = intake.NewScheduler(intake.SchedulerOptions{Store: e.store, Routes: o.Routes, Space: space, Timeout: limit,
		Wait: o.Confirm.Wait(), Hints: e.dispatch, Observer: o.Metrics, Vault: e.vault, Now: e.Now})

	health := e.receivers.store()
	e.hooks = reconcile.NewHooks(reconcile.HooksOptions{Store: e.store, Schedule: e.schedule, Health: health, Causes: health, Pauses: e.holds,
		Link: e.causePage, Routes: o.Routes, Space: space, Assignment: e.assignment, Logger: o.Logger})

	e.listener = listener.New(listener.Options{Client: o.Conn.Commander, Cluster: e.cluster(), DB: o.Conn.DB, Space: space,
		Routes: o.Routes, Configure: o.ConfigureRedis, Hints: signals{e}, Wakes: signals{e}, State: signals{e}, Assignment: e.assignment,
		Grace: o.Grace, Observer: o.Metrics, Logger: o.Logger})
	e.janitor = reconcile.NewJanitor(reconcile.JanitorOptions{Store: reconcile.Redis{Store: e.store}, Layout: e.store.Layout,
		Registry: e.heartbeats(), Routes: o.Routes, Shards: space, Work: signals{e}, Receivers: e.holds, Retirement: store.NewRetirement(e.store),
		Removed: o.Metrics.DeadRemoved, Assignment: e.assignment, Logger: o.Logger})
	e.walker = &receivers.Walker{Holds: e.holds, Layout: e.store.Layout, Mine: e.assignment, Logger: o.Logger}
}

// startWait is how long calls wait for a new Engine, so that no call fails because it came just
// before Redis answered.
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

// known returns nil once calls can be made, and waits briefly for that after the start.
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

	why := e.trouble.Load()
	switch {
	case why == nil:
		return wire.ErrNotBegun
	case errors.Is(*why, wire.ErrLogin), errors.Is(*why, wire.ErrRights):
		return *why // it names the remedy
	}

	return fmt.Errorf("%w: %v", wire.ErrNotBegun, *why)
}

// Subscribed is closed when the first subscription has begun.
func (e *Engine) Subscribed() <-chan struct{} { return e.ready }

// Run delivers notices until ctx ends. It then stops claiming, waits until running attempts are settled, leaves the
// fleet and returns nil. If the data in Redis has another layout, Run delivers nothing and returns store.ErrLayout.
func (e *Engine) Run(ctx context.Context) error {
	defer e.watchNodes(ctx)()
	defer e.alarms.start(func() string { return e.full.condition().Reason })()
	if err := e.Begin(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}

	if e.o.MakeKey {
		if _, err := e.store.Layout.Key(ctx); err != nil {
			e.o.Logger.Warn("cannot read the service's key, refusing listings of more than one page until it is available", zap.Error(err))
		}
	}

	e.recallForgotten(ctx, recallStart)
	defer e.join(ctx)()
	// The loops continue during the drain.
	loops, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	g, loops := errgroup.WithContext(loops)
	g.Go(func() error { return e.listener.Run(loops) })
	g.Go(func() error { return e.janitor.Run(loops) })
	g.Go(func() error { return e.hooks.Run(loops) })
	g.Go(func() error { return e.walker.Run(loops) })
	g.Go(func() error { return e.adopter.Run(loops) })
	g.Go(func() error { return e.watchOutages(loops) })
	g.Go(func() error { return e.watchData(loops) })
	g.Go(func() error { return e.unadopted.Run(loops) })
	g.Go(func() error { return e.keepMinutes(loops) })
	g.Go(func() error { return e.keepHistory(loops) })
	g.Go(func() error { return e.tendAudit(loops) })
	g.Go(func() error { return e.tendSeals(loops) })
	g.Go(func() error { return e.receivers.publish(loops) })
	g.Go(func() error { return e.rules.Run(loops) })
	g.Go(func() error { return e.receivers.scan(loops) })
	g.Go(func() error { return e.driveReplays(loops) })
	g.Go(func() error { return e.redirects.Run(loops) })
	g.Go(func() error { return e.tendShards(loops) })
	g.Go(func() error { return e.sweepers.Run(loops) })
	g.Go(func() error { return e.o.Taps.Run(loops, tracing.NewTapStore(e.store.Wire()), e.Self) })
	streams, endStreams := context.WithCancel(loops)
	defer endStreams()
	g.Go(func() error { return e.hub.Run(streams) })
	select {
	case <-ctx.Done():
	case <-loops.Done(): // a loop failed
	}

	endStreams() // the API's handlers wait for it
	e.fleet.Retire()
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.o.Drain)
	defer cancel()
	if left := e.dispatch.Drain(drain, 3*time.Second); left > 0 {
		e.o.Logger.Error("stopped with unsettled attempts, they are repeated when their lease expires", zap.Int("attempts", left))
	}

	stop()
	return g.Wait()
}

// Close refuses new schedule calls and waits for running ones. Call it before the connection is
// closed, and after the API server has answered its last calls; Run may have ended earlier.
func (e *Engine) Close(ctx context.Context) {
	if e.isOpen() {
		e.schedule.Close(ctx)
		e.store.Timers.Flush()
	}
}

// Begin waits for Redis and reads the layout of its data. It returns store.ErrLayout if the data
// were written with other settings. Run calls it first.
func (e *Engine) Begin(ctx context.Context) error {
	if e.wrong != nil {
		return e.wrong
	}

	again, o := pace.Loop{Min: 50 * time.Millisecond, Max: 2 * time.Second}, e.outage()
	for !e.isOpen() {
		err := e.learn(ctx)
		if err == nil {
			e.populate()
			close(e.open)
			o.over()
			break
		}

		if errors.Is(err, store.ErrLayout) || errors.Is(err, ErrConfig) {
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

// populate adds all known shards to the parts.
func (e *Engine) populate() {
	places := e.store.Space().Places()
	e.dispatch.Grow(places)
	if e.shipper != nil {
		e.shipper.Grow(places)
	}

	e.sweepMore()
	e.dispatch.SetParts(e.assignment.Parts())
}

// learn reads the layout of the data and registers this instance with Redis.
func (e *Engine) learn(ctx context.Context) error {
	if e.o.Rights != nil {
		if err := e.o.Rights.Check(ctx); err != nil {
			return err
		}
	}

	space, warning, err := store.Discover(ctx, e.o.Conn, e.o.Space, e.o.Conn.Masters != nil)
	if err != nil {
		return err
	}

	e.store.Layout.Enter(space)
	if err := e.store.Wire().Detect(ctx); err != nil {
		return err
	}
	if err := e.synced(ctx); err != nil {
		return err
	}

	if err := e.checkHandled(ctx); err != nil {
		return err
	}

	if err := e.store.Layout.Learn(ctx); err != nil {
		if errors.Is(err, store.ErrLayout) {
			// Another instance wrote the layout first: the next try reads or refuses it.
			return fmt.Errorf("%w: %s", wire.ErrUnavailable, err.Error())
		}
		return err
	}

	if warning != "" {
		e.o.Logger.Warn("NOTIFIER_SHARDS is outdated, using the number of shards in Redis", zap.String("problem", warning))
	}

	if err := e.store.Layout.CopyPaused(ctx); err != nil && !errors.Is(err, wire.ErrFull) &&
		(e.o.Conn.Masters == nil || !errors.Is(err, wire.ErrUnavailable)) {
		return err // in a cluster, copies in other shards have the layout if the first one's node is unreachable
	}

	return e.orderRoutes(ctx)
}

// synced returns an error if fsync is configured and a server does not support it. The store checks
// each later connection.
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
			return nil // checked when there is a connection
		}

		return err
	}
	if e.o.Conn.Masters == nil {
		return one(ctx, e.o.Conn)
	}

	return e.o.Conn.Masters(ctx, one)
}

// Now returns the time of Redis's clock, as the heartbeats have measured it. Stored times are compared with it.
func (e *Engine) Now() time.Time { return e.store.Wire().Clock.Now() }

// Store returns the engine's store.
func (e *Engine) Store() *store.Store { return e.store }

// Ready checks Redis and the subscription.
func (e *Engine) Ready(ctx context.Context) fleet.Readiness {
	r := fleet.Readiness{Ready: true}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	not := func(reason string) fleet.Readiness {
		r.Ready = false
		r.Reasons = append(r.Reasons, reason)
		return r
	}
	if !e.isOpen() {
		if err := e.o.Conn.Ping(ctx).Err(); err != nil {
			return not(trouble(wire.Wrap("ping", err)))
		}

		reason := "redis has just answered again"
		if err := e.trouble.Load(); err != nil {
			reason = trouble(*err)
		}

		return not("not begun: " + reason)
	}

	err := e.store.Layout.Known(ctx)
	if err == nil && e.o.Conn.Nodes == nil {
		err = e.probe(ctx)
	}

	switch {
	case errors.Is(err, store.ErrLayout):
		not(err.Error())
	case errors.Is(err, wire.ErrUnavailable) && e.o.Conn.Nodes == nil:
		return not(trouble(err)) // nothing is delivered, by sweeps neither
	case err != nil:
		not(trouble(err))
	}

	r.Degraded = e.degraded(ctx)
	if n := e.janitor.Orphans(); n > 0 {
		r.Reasons = append(r.Reasons, notice.Count(n, "notice")+" under prefixes that no route covers")
	}

	return r
}

// degraded returns the limitations with which this instance works. A condition without a reason does not hold.
func (e *Engine) degraded(ctx context.Context) []fleet.Condition {
	when := func(holds bool, reason string) string {
		if !holds {
			return ""
		}
		return reason
	}

	all := append(slices.Concat(e.unreachable(ctx), e.losses.conditions(), e.shortages(), e.unopened(ctx)), []fleet.Condition{
		e.full.condition(),
		e.unwritten(),
		{Reason: when(e.listener.Alive() == 0, "no subscription: delivering by sweeps")},
		{Reason: when(!e.events.Load(), "expired events do not arrive: delivering by sweeps; the log says why")},
		{Reason: when(!e.keyspace.Load(), "no keyspace events: plain timers are scanned every second; doctor names the missing permissions")},
		{Reason: e.historyClock()},
		{Reason: e.logProblem()},
		{Reason: e.batchProblem()},
	}...)
	return slices.DeleteFunc(all, func(c fleet.Condition) bool { return c.Reason == "" })
}
