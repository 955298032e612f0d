package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"notifier/internal/api"
	"notifier/internal/callback"
	"notifier/internal/config"
	"notifier/internal/keys"
	"notifier/internal/metrics"
	"notifier/internal/route"
	"notifier/internal/store"
)

// Options of a Process.
type Options struct {
	Config  *config.Config
	Version string
	Logger  *zap.Logger
	// Listener, if not nil, is served instead of Config.Listen.
	Listener net.Listener
}

// Process is an Engine with its HTTP API.
type Process struct {
	*Engine
	o      Options
	conn   *store.Conn
	calls  *callback.Handler
	server *http.Server
	listen net.Listener
}

// ErrConfig is what errors of New wrap that better configuration would mend.
var ErrConfig = errors.New("configuration")

// New makes a process from its configuration and listens, so that an address
// that is taken is told at once. It does not wait for Redis.
func New(o Options) (*Process, error) {
	c := o.Config
	table, err := route.NewTable(c.Routes)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	conn, err := store.Open(c.Redis.Mode, c.Redis.URL)
	if err != nil {
		return nil, fmt.Errorf("%w: NOTIFIER_REDIS_URL: %w", ErrConfig, err)
	}
	calls := callback.New(callback.Options{Logger: o.Logger, Concurrency: c.Concurrency, UserAgent: "notifier/" + o.Version})
	names := make([]string, 0, len(c.Routes))
	for _, r := range c.Routes {
		names = append(names, r.Name)
		if k := r.Target.Kind; k == route.KindFixed || k == route.KindNotice {
			if err := calls.Prepare(r); err != nil {
				_ = conn.Close()
				return nil, fmt.Errorf("%w: route %s: %w", ErrConfig, r.Name, err)
			}
		}
	}
	m := metrics.New(o.Version, names)
	p := &Process{o: o, conn: conn, calls: calls, listen: o.Listener}
	p.Engine = NewEngine(EngineOptions{Conn: conn, Space: keys.Space{Namespace: c.Namespace, Shards: c.Shards}, Routes: table,
		Handler: handlers(conn, calls, o.Logger), Instance: c.Instance, Concurrency: c.Concurrency, Grace: c.Grace, Retention: c.Retention,
		Retain: int(c.Retain), MaxBody: c.MaxBody, ConfigureRedis: c.ConfigureRedis, Drain: c.ShutdownTimeout, Metrics: m, Logger: o.Logger})
	m.Observe(p.gauges)
	if p.listen == nil {
		if p.listen, err = net.Listen("tcp", c.Listen); err != nil {
			_ = conn.Close()
			return nil, fmt.Errorf("NOTIFIER_LISTEN: %w", err)
		}
	}
	clients := make([]api.Client, 0, len(c.Clients))
	for _, x := range c.Clients {
		clients = append(clients, api.Client{Name: x.Name, Token: string(x.Token), Prefix: x.Prefix})
	}
	p.server = api.Server(api.New(api.Options{Engine: p.Engine, Routes: table, Clients: clients, MaxBody: c.MaxBody, Metrics: m.Page(),
		Logger: o.Logger, Version: o.Version, Loopback: loopback(p.listen.Addr())}), c.Listen)
	return p, nil
}

func loopback(a net.Addr) bool {
	t, ok := a.(*net.TCPAddr)
	return !ok || t.IP.IsLoopback()
}

// Addr is where the API listens.
func (p *Process) Addr() string { return p.listen.Addr().String() }

// Run serves and delivers until ctx ends, then stops in this order: the API
// takes no new calls and answers those it has, claims end, running handlers
// finish and are settled, connections close. It returns nil after an orderly
// stop.
func (p *Process) Run(ctx context.Context) error {
	for _, line := range config.Describe(p.o.Config) {
		p.o.Logger.Info(line)
	}
	p.o.Logger.Info("listening", zap.String("address", p.Addr()), zap.String("version", p.o.Version), zap.String("redis", p.o.Config.Redis.String()))
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		if err := p.server.Serve(p.listen); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("http: %w", err)
		}
		return nil
	})
	g.Go(func() error {
		<-ctx.Done()
		p.o.Logger.Info("stopping")
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.o.Config.ShutdownTimeout)
		defer cancel()
		if err := p.server.Shutdown(stop); err != nil {
			return p.server.Close()
		}
		return nil
	})
	g.Go(func() error { return p.Engine.Run(ctx) })
	err := g.Wait()
	p.calls.Close()
	_ = p.conn.Close()
	if err == nil {
		p.o.Logger.Info("stopped")
	}
	return err
}
