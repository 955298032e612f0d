package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"notifier/internal/config"
	"notifier/internal/engine"
	"notifier/internal/fleet"
	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/wire"
)

// Defaults of Timeout and Concurrency.
const (
	DefaultTimeout     = 10 * time.Second
	DefaultConcurrency = 64
)

// A HandlerOption is an option of Handle and HandleJSON.
type HandlerOption func(*handler)

// Retry sets the delays between attempts: a handler with n delays has n+1 attempts. By default they are 15s, 3m, 10m, 30m,
// 30m, 1h, 2h, 6h and 15h.
func Retry(delays ...time.Duration) HandlerOption {
	return func(x *handler) { x.route.Ladder = ladder(delays) }
}

// ladder returns delays as a ladder; a negative one, which would repeat, is refused as zero.
func ladder(delays []time.Duration) notice.Ladder {
	l := notice.Ladder(slices.Clone(delays))
	for i := range l {
		l[i] = max(l[i], 0)
	}

	return l
}

// RetryUntilExpired is Retry whose last delay, of at least a minute, repeats until the notice expires. It needs [Expires].
func RetryUntilExpired(delays ...time.Duration) HandlerOption {
	return func(x *handler) { x.route.Ladder = ladder(delays).Repeated() }
}

// Timeout sets after which time the context of an attempt ends, from 1 ms to 1 hour. The default is DefaultTimeout.
func Timeout(d time.Duration) HandlerOption { return func(x *handler) { x.route.Timeout = d } }

// Concurrency sets how many attempts run at the same time in this worker. The default is DefaultConcurrency.
func Concurrency(n int) HandlerOption { return func(x *handler) { x.route.Concurrency = n } }

// Expires sets how long after its first due time a notice without an expiry of its own may still be handled. Later it is dead with the
// reason expired. It counts for notices that this worker schedules.
func Expires(d time.Duration) HandlerOption { return func(x *handler) { x.route.Expires = d } }

// Order makes the handler get the notices of one business id one after another, by due time. Notices have the same business
// id if the app, the module and the id of their keys are equal; an id may end in ~1, ~2 and so on.
func Order() HandlerOption { return func(x *handler) { x.route.Order = route.OrderSkip } }

// Use wraps the handler. The first middleware is the outermost. Those of Worker.Use are outside of all.
func Use(m ...Middleware) HandlerOption { return func(x *handler) { x.use = append(x.use, m...) } }

// A Worker schedules notices, and calls its handlers when notices are due. It is safe for concurrent use.
type Worker struct {
	o    Options
	c    *config.Config
	conn *wire.Conn

	history engine.History
	life    context.Context // of the connection
	end     context.CancelFunc

	mu          sync.Mutex
	handlers    []*handler
	use         []Middleware
	wrong       []error
	engine      *engine.Engine // nil before the first call
	table       *route.Table   // of the engine
	served      *served        // nil without an API
	serving     sync.WaitGroup
	run, closed bool
	stop        context.CancelFunc // ends Run; nil before it
	begun, ran  chan struct{}
	overruns    overruns
	failed      error // of the beginning, once begun is closed
}

// New returns a worker. It sends nothing to Redis: the worker connects with its first call. The error lists all wrong
// options. A worker that is not run must be closed.
func New(o Options) (*Worker, error) {
	c, err := o.config()
	if err != nil {
		return nil, err
	}

	conn, err := o.open(c.Redis)
	h, failed := engine.OpenHistory(c.History)
	if failed != nil {
		text := strings.ReplaceAll(failed.Error(), config.Prefix+"HISTORY_URL", "Options.History")
		failed = fmt.Errorf("%w%s", ErrConfig, strings.TrimPrefix(text, ErrConfig.Error()))
	}

	if err = errors.Join(err, failed); err != nil {
		if conn != nil {
			_ = conn.Close()
		}

		if h.DB != nil {
			_ = h.DB.Close()
		}

		return nil, err
	}

	if o.Codec == nil {
		o.Codec = jsonCodec{}
	}

	w := &Worker{o: o, c: c, conn: conn, history: h, begun: make(chan struct{}), ran: make(chan struct{}),
		overruns: overruns{log: logger(o)}}
	w.life, w.end = context.WithCancel(context.Background())
	return w, nil
}

// open returns the connection to Redis. It sends nothing.
func (o *Options) open(c config.Redis) (*wire.Conn, error) {
	if o.seam != nil {
		return o.seam.Conn, nil
	}

	conn, err := wire.Open(wire.Address{Mode: c.Mode, URL: c.URL, TLS: c.TLS, SentinelUsername: c.SentinelUsername,
		SentinelPassword: string(c.SentinelPassword)})
	if err != nil {
		return nil, fmt.Errorf("%w: Options.Redis: %w", ErrConfig, err)
	}

	return conn, nil
}

// Use wraps all handlers of the worker. The first middleware is the outermost. It panics after the first call of Run or a
// method that uses Redis.
func (w *Worker) Use(m ...Middleware) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.engine != nil {
		panic("worker: Use after the first call of Run or a method that uses Redis")
	}

	w.use = append(w.use, m...)
}

// wrap returns a handler with its middleware; nil without a handler or if a middleware is nil or returns nil.
func wrap(h Handler, use []Middleware) Handler {
	for _, m := range slices.Backward(use) {
		if h == nil || m == nil {
			return nil
		}

		h = m(h)
	}

	return h
}

// make creates the engine, once, and returns the errors of the handlers.
func (w *Worker) make() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.engine != nil:
		return nil
	case w.closed:
		return fmt.Errorf("%w: the worker is closed", ErrUnavailable)
	}

	wrong := slices.Clone(w.wrong)
	var routes []*route.Route
	by := map[string]Handler{}
	for _, x := range w.handlers {
		if _, err := route.NewTable(append(slices.Clone(routes), x.route)); err != nil {
			wrong = append(wrong, fmt.Errorf("%w: %w", ErrConfig, err))
			continue
		}

		h := wrap(wrap(x.handle, x.use), w.use)
		if h == nil && x.handle != nil {
			wrong = append(wrong, fmt.Errorf("%w: handler %s: a middleware is nil or returns nil", ErrConfig, x.route.Prefix))
		}

		routes = append(routes, x.route)
		by[x.route.Prefix] = h
	}

	if len(wrong) > 0 {
		return errors.Join(wrong...)
	}

	table, err := route.NewTable(routes)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}

	w.table, w.engine = table, w.newEngine(table, calls{by, &w.overruns})
	go func() {
		w.failed = w.engine.Begin(w.life)
		close(w.begun)
	}()
	return nil
}

// newEngine creates the engine of the handlers.
func (w *Worker) newEngine(table *route.Table, h calls) *engine.Engine {
	c := w.c
	o := engine.Options{Conn: w.conn, Space: keys.Space{Namespace: c.Namespace, Shards: c.Shards}, Routes: table, Handler: h,
		Instance: c.Instance, Version: "worker", Concurrency: c.Concurrency, Grace: c.Grace, Drain: c.ShutdownTimeout, Takeover: c.Takeover,
		Retention: c.Retention, Retain: int(c.Retain), RepeatWindow: c.RepeatWindow, RepeatBytes: c.RepeatBytes,
		SealKeys: c.SealKeys, History: w.history, ConfigureRedis: c.ConfigureRedis, LogAttempts: c.LogAttempts, Logger: w.overruns.log,
		Confirm:       wire.Confirm{Durability: c.Durability, Timeout: c.DurabilityTimeout},
		ConfirmSettle: wire.Confirm{Durability: c.DurabilitySettle, Timeout: c.DurabilityTimeout}}
	if w.o.Metrics != nil {
		o.Metrics = counters{fleet.NewCounters(table.All()), w.o.Metrics}
	}

	if w.served != nil {
		o.Clients, o.MakeKey = w.served.clients, true
	}

	if w.o.TracerProvider != nil {
		o.Tracer = w.o.TracerProvider.Tracer("notifier/worker")
	}

	if w.o.seam != nil {
		w.o.seam.Change(&o)
	}

	return engine.New(o)
}

// callWait is how long a call waits for a worker that has not reached Redis yet.
const callWait = 3 * time.Second

// ready waits for a worker that has just begun. If that takes too long, it returns nil, and the engine returns the reason.
func (w *Worker) ready(ctx context.Context) error {
	limit := time.NewTimer(callWait)
	defer limit.Stop()
	return w.await(ctx, limit.C)
}

// begin waits until the worker knows the data in Redis.
func (w *Worker) begin(ctx context.Context) error { return w.await(ctx, nil) }

func (w *Worker) await(ctx context.Context, limit <-chan time.Time) error {
	if err := w.make(); err != nil {
		return err
	}

	select {
	case <-w.begun:
		return w.failed
	case <-limit:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrUnavailable, context.Cause(ctx))
	}
}

// Run records the prefixes of the handlers and handles notices until ctx ends or Close is called. It waits for Redis, and
// logs why. At the end, running handlers have ShutdownTimeout, and Run closes the worker. Run returns nil after that, and
// otherwise all errors of the registration together, before anything is claimed. Only the first call runs the worker.
func (w *Worker) Run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	w.mu.Lock()
	again, closed := w.run, w.closed
	if w.run = true; !again && !closed {
		w.stop = stop
	}

	w.mu.Unlock()
	switch {
	case again:
		return fmt.Errorf("%w: Run was called before", ErrConfig)
	case closed:
		return fmt.Errorf("%w: Run was called after Close", ErrConfig)
	}

	defer close(w.ran)
	defer w.closeAfterRun(ctx)
	if err := w.begin(ctx); err != nil {
		if ctx.Err() != nil && errors.Is(err, ErrUnavailable) {
			return nil
		}
		return err
	}

	return w.engine.Run(ctx)
}

// closeTimeout bounds the wait for calls that are being written.
const closeTimeout = time.Second

func (w *Worker) closeAfterRun(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	_ = w.disconnect(ctx)
}

// Close ends a worker. It waits for running calls until ctx ends. During Run, Close acts as the end of Run's context and
// waits for Run; its error means that ctx has ended first.
func (w *Worker) Close(ctx context.Context) error {
	w.mu.Lock()
	stop, closed := w.stop, w.closed
	w.closed = true
	w.mu.Unlock()
	switch {
	case stop != nil:
		stop()
		select {
		case <-w.ran:
			return nil
		case <-ctx.Done():
			return fmt.Errorf("handlers are running: %w", context.Cause(ctx))
		}
	case closed:
		return nil
	}

	return w.disconnect(ctx)
}

// disconnect closes the connection after running calls.
func (w *Worker) disconnect(ctx context.Context) error {
	w.mu.Lock()
	e := w.engine
	w.closed = true
	w.mu.Unlock()
	w.end()
	if e != nil {
		select {
		case <-w.begun:
			e.Close(ctx)
		case <-ctx.Done(): // the end of the connection ends the wait for Redis
		}

		w.serving.Wait()
	}

	err := w.conn.Close()
	if w.history.DB != nil {
		err = errors.Join(err, w.history.DB.Close())
	}

	return err
}

// logger returns the logger of the engine.
func logger(o Options) *zap.Logger {
	switch {
	case o.Zap != nil:
		return o.Zap
	case o.Logger != nil:
		return zap.New(&core{handler: o.Logger.Handler()})
	}
	return zap.NewNop()
}
