package adapter

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"notifier/bench/peer"
	"notifier/bench/server"
	"notifier/internal/engine"
	"notifier/internal/keys"
	"notifier/internal/metrics"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/store"
	"notifier/internal/wire"
)

// inProcess is this project in process: producer and worker call the engine as
// its HTTP API does, with the settings that an installation starts with.
type inProcess struct {
	srv      *server.Process
	addr     string
	handlers int
	routes   int
	noEvents bool
	rdb      *redis.Client // for the figures only
	conn     *wire.Conn
	producer *engine.Engine
	worker   *engine.Engine
	metrics  *metrics.Metrics // of the worker
	workConn *wire.Conn
	workers  *workers
}

const (
	ourPrefix  = "app1"
	ourTimeout = 10 * time.Second
)

var ourTraits = peer.Traits{Crash: "nothing; delivered again 3 to 4 s later by another instance, or when the lease ends (timeout + 5 s) " +
	"if there is none", Race: "safe (claim with a token)",
	Ladder: "by route or by notice",
	Cancel: "by key"}

const ourRefused = "it is repeated after the route's ladder, 15 s, 3 min, 10 min and so on over 25 h (the default), and is then dead"

func notifierEntry() peer.Entry {
	return peer.Entry{Info: peer.Info{
		Name: "notifier", Title: "notifier, in process", Version: "this revision", Kind: peer.Ours, Needs: redisNeeds,
		Traits:   ourTraits,
		Refused:  "the handler returns a failure; " + ourRefused,
		Settings: "defaults; the route's concurrency is the number of handlers asked for",
		Batch:    128, BytesOf: bytesRedis, CommandsOf: commandsRedis,
	}, New: func() peer.Peer { return &inProcess{} }}
}

func (e *inProcess) Start(ctx context.Context, env peer.Env) error {
	e.addr, e.handlers, e.routes, e.noEvents = env.Attach, env.Handlers, max(env.Routes, 1), env.NoEvents
	if e.addr == "" {
		srv, err := server.Redis(ctx, env.Dir)
		if err != nil {
			return err
		}

		e.srv, e.addr = srv, srv.Addr
	}

	e.workers = newWorkers()
	e.rdb = redis.NewClient(&redis.Options{Addr: e.addr})
	var err error
	if e.producer, e.conn, err = e.open(nil, nil); err != nil {
		return err
	}

	return e.producer.Begin(ctx)
}

type handlerFunc peer.Call

// Handle calls the harness's handler with the job.
func (h handlerFunc) Handle(ctx context.Context, _ *route.Route, n *notice.Notice) notice.Result {
	if err := h(ctx, job(n.Key, n.Body)); err != nil {
		return notice.RetryResult(notice.ReasonStatus5xx, err.Error())
	}
	return notice.DeliveredResult(http.StatusOK)
}

// table returns the routes. All jobs are of the first.
func (e *inProcess) table() []*route.Route {
	list := make([]*route.Route, e.routes)
	for i := range list {
		list[i] = &route.Route{
			Name: fmt.Sprintf("bench%d", i+1), Prefix: fmt.Sprintf("app%d", i+1), Target: route.Target{Kind: route.KindLog},
			Ladder: notice.DefaultLadder, Timeout: ourTimeout, Ack: route.Ack{Kind: route.Ack2xx},
			Concurrency: e.handlers, HostConcurrency: e.handlers,
		}
	}

	return list
}

func (e *inProcess) open(call peer.Call, m *metrics.Metrics) (*engine.Engine, *wire.Conn, error) {
	table, err := route.NewTable(e.table())
	if err != nil {
		return nil, nil, fmt.Errorf("make the route: %w", err)
	}

	conn, err := wire.Open(wire.Address{URL: "redis://" + e.addr + "/0"})
	if err != nil {
		return nil, nil, fmt.Errorf("connect to Redis: %w", err)
	}

	level := zap.NewProductionConfig()
	level.Level, level.OutputPaths = zap.NewAtomicLevelAt(zap.WarnLevel), []string{"stderr"}
	log, err := level.Build()
	if err != nil {
		return nil, nil, fmt.Errorf("make the log: %w", err)
	}

	return engine.New(engine.Options{
		Conn: conn, Space: keys.Space{Namespace: "notifier", Shards: 1}, Routes: table,
		Handler:  handlerFunc(call),
		Instance: "bench-" + rand.Text(), Concurrency: max(512, e.handlers), Grace: 50 * time.Millisecond, Retention: 24 * time.Hour,
		Retain:         100_000,
		ConfigureRedis: !e.noEvents, Drain: 2 * time.Second, Takeover: 3 * time.Second, Metrics: m, Logger: log,
	}), conn, nil
}

func request(j peer.Job) store.Request {
	return store.Request{Key: j.ID, Due: j.Due, Content: notice.Content{Body: payload(j)}}
}

func (e *inProcess) Schedule(ctx context.Context, j peer.Job) error {
	_, err := e.producer.Schedule(ctx, request(j))
	return err
}

func (e *inProcess) ScheduleBatch(ctx context.Context, jobs []peer.Job) error {
	requests := make([]store.Request, len(jobs))
	for i, j := range jobs {
		requests[i] = request(j)
	}

	for _, r := range e.producer.ScheduleMany(ctx, requests) {
		if r.Err != nil {
			return r.Err
		}
	}

	return nil
}

func (e *inProcess) Work(ctx context.Context, handlers int, handle peer.Handle) error {
	return e.Call(ctx, handlers, handle.Call)
}

func (e *inProcess) Call(ctx context.Context, _ int, call peer.Call) error {
	e.metrics = metrics.New(metrics.Options{Version: "bench"})
	worker, conn, err := e.open(call, e.metrics)
	if err != nil {
		return err
	}

	e.worker, e.workConn = worker, conn
	e.workers.run(worker.Run)
	select {
	case <-worker.Subscribed():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(20 * time.Second):
		return errors.New("the engine has no subscription after 20 s")
	}
}

func (e *inProcess) Usage(ctx context.Context) (peer.Usage, error) {
	return (&onRedis{srv: e.srv, rdb: e.rdb}).Usage(ctx)
}

// Others implements harness.Member.
func (e *inProcess) Others(ctx context.Context, n int) error {
	for {
		if v := e.worker.Fleet().View(); v.Known() && v.Alive() == n+1 {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// InVain implements harness.Member: claims that were lost or stale.
func (e *inProcess) InVain() (n int64, err error) {
	page := httptest.NewRecorder()
	e.metrics.Page().ServeHTTP(page, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for line := range strings.Lines(page.Body.String()) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if !strings.HasPrefix(name, "notifier_claims_total{") || strings.Contains(name, `"`+string(notice.ClaimWon)+`"`) {
			continue
		}

		f, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return 0, fmt.Errorf("read the metrics: %w", err)
		}

		n += int64(f)
	}

	return n, nil
}

func (e *inProcess) Addr() string { return e.addr }

func (e *inProcess) Stop() error {
	e.workers.stop()
	var errs []error
	for _, c := range []*wire.Conn{e.conn, e.workConn} {
		if c != nil {
			errs = append(errs, c.Close())
		}
	}

	if e.rdb != nil {
		errs = append(errs, e.rdb.Close())
	}

	return errors.Join(append(errs, e.srv.Stop())...)
}
