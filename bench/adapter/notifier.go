package adapter

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"notifier/bench/peer"
	"notifier/bench/server"
	"notifier/internal/app"
	"notifier/internal/dispatch"
	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/store"
)

// engine is this project in process: producer and worker call the engine as
// its HTTP API does, with the settings that an installation starts with.
type engine struct {
	srv      *server.Process
	addr     string
	handlers int
	noEvents bool
	rdb      *redis.Client // for the figures only
	conn     *store.Conn
	producer *app.Engine
	worker   *app.Engine
	workConn *store.Conn
	crew     *crew
}

const (
	ourPrefix  = "app1"
	ourTimeout = 10 * time.Second
)

var ourTraits = peer.Traits{Crash: "nothing; delivered again when the lease ends (timeout + 5 s)", Race: "safe (claim with a token)",
	Ladder: "by route or by notice",
	Cancel: "by key"}

func notifierEntry() peer.Entry {
	return peer.Entry{Info: peer.Info{
		Name: "notifier", Title: "notifier, in process", Version: "this revision", Kind: peer.Ours, Needs: redisNeeds,
		Traits:   ourTraits,
		Settings: "defaults; the route's concurrency is the number of handlers asked for",
		Batch:    128, BytesOf: bytesRedis, CommandsOf: commandsRedis,
	}, New: func() peer.Peer { return &engine{} }}
}

func (e *engine) Start(ctx context.Context, env peer.Env) error {
	e.addr, e.handlers, e.noEvents = env.Attach, env.Handlers, env.NoEvents
	if e.addr == "" {
		srv, err := server.Redis(ctx, env.Dir)
		if err != nil {
			return err
		}
		e.srv, e.addr = srv, srv.Addr
	}
	e.crew = newCrew()
	e.rdb = redis.NewClient(&redis.Options{Addr: e.addr})
	var err error
	e.producer, e.conn, err = e.open(nil)
	return err
}

type handlerFunc func(key string)

// Handle tells the harness and reports success.
func (h handlerFunc) Handle(_ context.Context, _ *route.Route, n *notice.Notice) notice.Result {
	h(n.Key)
	return notice.DeliveredResult(200)
}

func (e *engine) open(handle peer.Handle) (*app.Engine, *store.Conn, error) {
	table, err := route.NewTable([]*route.Route{{
		Name: "bench", Prefix: ourPrefix, Target: route.Target{Kind: route.KindLog}, Ladder: notice.DefaultLadder,
		Timeout: ourTimeout,
		Ack:     route.Ack{Kind: route.Ack2xx}, Concurrency: e.handlers, HostConcurrency: e.handlers,
	}})
	if err != nil {
		return nil, nil, fmt.Errorf("make the route: %w", err)
	}
	conn, err := store.Open("standalone", "redis://"+e.addr+"/0")
	if err != nil {
		return nil, nil, fmt.Errorf("connect to Redis: %w", err)
	}
	level := zap.NewProductionConfig()
	level.Level, level.OutputPaths = zap.NewAtomicLevelAt(zap.WarnLevel), []string{"stderr"}
	log, err := level.Build()
	if err != nil {
		return nil, nil, fmt.Errorf("make the log: %w", err)
	}
	return app.NewEngine(app.EngineOptions{
		Conn: conn, Space: keys.Space{Namespace: "notifier", Shards: 1}, Routes: table,
		Handler:  func(*route.Route) dispatch.Handler { return handlerFunc(handle) },
		Instance: "bench-" + rand.Text(), Concurrency: 512, Grace: 50 * time.Millisecond, Retention: 24 * time.Hour, Retain: 100_000,
		ConfigureRedis: !e.noEvents, Drain: 2 * time.Second, Logger: log,
	}), conn, nil
}

func request(j peer.Job) store.Request {
	return store.Request{Key: j.ID, Due: j.Due, Content: notice.Content{Body: j.Body}}
}

func (e *engine) Schedule(ctx context.Context, j peer.Job) error {
	_, err := e.producer.Schedule(ctx, request(j))
	return err
}

func (e *engine) ScheduleBatch(ctx context.Context, jobs []peer.Job) error {
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

func (e *engine) Work(ctx context.Context, _ int, handle peer.Handle) error {
	worker, conn, err := e.open(handle)
	if err != nil {
		return err
	}
	e.worker, e.workConn = worker, conn
	e.crew.run(worker.Run)
	select {
	case <-worker.Subscribed():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(20 * time.Second):
		return errors.New("the engine has no subscription after 20 s")
	}
}

func (e *engine) Usage(ctx context.Context) (peer.Usage, error) {
	return (&onRedis{srv: e.srv, rdb: e.rdb}).Usage(ctx)
}

func (e *engine) Addr() string { return e.addr }

func (e *engine) Stop() error {
	e.crew.stop()
	var errs []error
	for _, c := range []*store.Conn{e.conn, e.workConn} {
		if c != nil {
			errs = append(errs, c.Close())
		}
	}
	if e.rdb != nil {
		errs = append(errs, e.rdb.Close())
	}
	return errors.Join(append(errs, e.srv.Stop())...)
}
