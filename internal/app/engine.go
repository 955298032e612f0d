// Package app is the process: it puts the packages together, starts them in
// order and stops them in order.
//
// An [Engine] is everything from schedule to settle on one Redis. A [Process]
// is an Engine with its HTTP API, made from a configuration.
package app

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"notifier/internal/adopt"
	"notifier/internal/api"
	"notifier/internal/dispatch"
	"notifier/internal/keys"
	"notifier/internal/listener"
	"notifier/internal/metrics"
	"notifier/internal/reconcile"
	"notifier/internal/route"
	"notifier/internal/schedule"
	"notifier/internal/store"
)

// EngineOptions of an Engine.
type EngineOptions struct {
	Conn        *store.Conn
	Space       keys.Space
	Routes      *route.Table
	Handler     func(*route.Route) dispatch.Handler
	Instance    string
	Concurrency int
	Grace       time.Duration
	Retention   time.Duration
	Retain      int
	// MaxBody is the longest payload of an adopted timer; zero = 256 KiB.
	MaxBody        int64
	ConfigureRedis bool
	// Drain is how long a stop waits for running handlers.
	Drain time.Duration
	// Metrics may be nil.
	Metrics *metrics.Metrics
	Logger  *zap.Logger
}

// Engine schedules, delivers and answers questions about notices.
type Engine struct {
	o        EngineOptions
	store    *store.Store
	schedule *schedule.Scheduler
	dispatch *dispatch.Dispatcher
	listener *listener.Listener
	keeper   *reconcile.Keeper
	adopter  *adopt.Adopter
	sweepers map[string][]*reconcile.Sweeper // by prefix, then shard

	events  atomic.Bool // expired events are known to come
	checked atomic.Bool // layout is right
	ready   chan struct{}
	once    sync.Once
}

// NewEngine makes an Engine. It can schedule at once; Run delivers.
func NewEngine(o EngineOptions) *Engine {
	e := &Engine{o: o, sweepers: map[string][]*reconcile.Sweeper{}, ready: make(chan struct{})}
	e.events.Store(true)
	e.store = store.New(store.Options{Client: o.Conn.UniversalClient, Space: o.Space, Cluster: o.Conn.Masters != nil,
		Retention: o.Retention, Retain: o.Retain, OnError: o.Metrics.RedisError})
	e.dispatch = dispatch.New(dispatch.Options{Store: e.store, Routes: o.Routes.All(), Shards: o.Space.Shards, Shard: o.Space.Shard,
		Handler: o.Handler, Total: o.Concurrency, Instance: o.Instance, Grace: o.Grace,
		Observer: observer{o.Metrics}, Logger: o.Logger,
		Stale: func(r *route.Route, ks []string) { e.adopter.Stale(r, ks) }})
	e.schedule = schedule.New(schedule.Options{Store: e.store, Routes: o.Routes, Space: o.Space,
		Due:       func(r *route.Route, key string) { e.dispatch.Hint(r, key) },
		Scheduled: o.Metrics.Scheduled})
	if o.MaxBody == 0 {
		o.MaxBody = 256 << 10
	}
	e.adopter = adopt.New(adopt.Options{Store: e.store, Routes: o.Routes, Space: o.Space, Masters: o.Conn.Masters, MaxBody: o.MaxBody,
		Adopted: o.Metrics.Scheduled, Lost: o.Metrics.BodiesLost, Events: e.events.Load, Logger: o.Logger})
	e.listener = listener.New(listener.Options{Client: o.Conn.UniversalClient, Masters: o.Conn.Masters, DB: o.Conn.DB, Space: o.Space,
		Routes: o.Routes, Configure: o.ConfigureRedis, Hint: e.dispatch.Hint, Wake: e.wake,
		Paused: func() { e.keeper.Recheck() }, Begun: e.begun, Keyspace: e.adopter.Event, Events: e.setEvents, Observer: o.Metrics, Logger: o.Logger})
	e.keeper = reconcile.NewKeeper(e.store, o.Routes, o.Space.Shards, e.dispatch.SetPaused,
		func(prefix string, shard int) { e.wake(shard, prefix, time.Time{}) }, o.Logger)
	for _, r := range o.Routes.All() {
		for shard := range o.Space.Shards {
			e.sweepers[r.Prefix] = append(e.sweepers[r.Prefix], reconcile.NewSweeper(e.store, e.dispatch, r.Prefix, shard, o.Grace,
				func() bool { return e.listener.Alive() > 0 }, e.events.Load, o.Logger))
		}
	}
	return e
}

func (e *Engine) wake(shard int, prefix string, due time.Time) {
	if s := e.sweepers[prefix]; shard < len(s) {
		s[shard].Wake(due)
	}
}

// begun catches up with what a subscription has missed before it began.
func (e *Engine) begun() {
	e.adopter.Scan()
	e.sweepAll()
	e.once.Do(func() { close(e.ready) })
}

func (e *Engine) sweepAll() {
	for _, shards := range e.sweepers {
		for _, s := range shards {
			s.Now()
		}
	}
}

func (e *Engine) setEvents(ok bool) {
	if e.events.Swap(ok) == ok {
		return
	}
	g := e.o.Grace
	if !ok {
		g = 0 // nothing to wait for
	}
	e.dispatch.SetGrace(g)
	e.adopter.Scan()
	e.sweepAll()
}

// Subscribed is closed when the first subscription has begun.
func (e *Engine) Subscribed() <-chan struct{} { return e.ready }

// Run delivers until ctx ends, then stops in order: claims end first, running
// handlers are waited for and settled, and the subscription ends last. It
// returns nil after an orderly stop, and store.ErrLayout, without having
// delivered anything, if the data in Redis were written with other settings.
func (e *Engine) Run(ctx context.Context) error {
	if err := e.check(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	// The loops outlive ctx by the drain: until then their work is harmless.
	loops, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	g, loops := errgroup.WithContext(loops)
	g.Go(func() error { return e.listener.Run(loops) })
	g.Go(func() error { return e.keeper.Run(loops) })
	g.Go(func() error { return e.adopter.Run(loops) })
	for _, shards := range e.sweepers {
		for _, s := range shards {
			g.Go(func() error { return s.Run(loops) })
		}
	}
	select {
	case <-ctx.Done():
	case <-loops.Done(): // a loop failed
	}
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.o.Drain)
	defer cancel()
	if left := e.dispatch.Drain(drain, 3*time.Second); left > 0 {
		e.o.Logger.Error("stopped with attempts unsettled; they are made again when their lease has lapsed", zap.Int("attempts", left))
	}
	stop()
	return g.Wait()
}

// check waits for Redis, and refuses data of another layout.
func (e *Engine) check(ctx context.Context) error {
	wait, said := 50*time.Millisecond, false
	for {
		err := e.store.Detect(ctx)
		if err == nil {
			err = e.store.CheckMeta(ctx)
		}
		if err == nil {
			var mine []string
			for _, r := range e.o.Routes.All() {
				mine = append(mine, r.Prefix)
			}
			err = e.store.Register(ctx, mine)
		}
		if err == nil {
			e.checked.Store(true)
			return nil
		}
		if errors.Is(err, store.ErrLayout) {
			return err
		}
		if !said {
			said = true
			e.o.Logger.Error("cannot begin: Redis does not answer as it must; trying again until it does", zap.Error(err))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
			wait = min(2*wait, 2*time.Second)
		}
	}
}

// Store is the engine's Redis.
func (e *Engine) Store() *store.Store { return e.store }

// Ready asks Redis and the subscription.
func (e *Engine) Ready(ctx context.Context) api.Readiness {
	r := api.Readiness{Ready: true}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if err := e.o.Conn.Ping(ctx).Err(); err != nil {
		r.Ready = false
		r.Reasons = append(r.Reasons, "redis does not answer")
	} else if !e.checked.Load() {
		r.Ready = false
		r.Reasons = append(r.Reasons, "not begun: redis has just come back, or refuses what this service needs")
	}
	if e.listener.Alive() == 0 {
		r.Degraded = true
		r.Reasons = append(r.Reasons, "no subscription: delivering by sweeps")
	}
	if !e.events.Load() {
		r.Degraded = true
		r.Reasons = append(r.Reasons, "no expired events: delivering by sweeps; notify-keyspace-events lacks flags, or is not to be read")
	}
	if n := e.keeper.Orphans(); n > 0 {
		r.Reasons = append(r.Reasons, fmt.Sprintf("%d notices lie under prefixes that no route covers", n))
	}
	return r
}
