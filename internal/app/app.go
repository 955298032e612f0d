package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"notifier/internal/access"
	"notifier/internal/api"
	"notifier/internal/callback"
	"notifier/internal/config"
	"notifier/internal/doctor"
	"notifier/internal/engine"
	"notifier/internal/fleet"
	"notifier/internal/history"
	"notifier/internal/keyring"
	"notifier/internal/keys"
	"notifier/internal/metrics"
	"notifier/internal/remote"
	"notifier/internal/route"
	"notifier/internal/session"
	"notifier/internal/ui"
	"notifier/internal/wire"
)

// Options of a Process.
type Options struct {
	Config *config.Config
	// Version and Revision are those of the program.
	Version, Revision string
	Logger            *zap.Logger
	// Throwaway: Redis is not meant to keep anything, so its setup is not
	// examined.
	Throwaway bool
	// Listener, if not nil, is served instead of Config.Listen.
	Listener net.Listener
	// Hurry, when closed, ends NOTIFIER_SHUTDOWN_DELAY. Nil: nothing ends it early.
	Hurry <-chan struct{}
}

// Process is an Engine with its HTTP API and its pages.
type Process struct {
	*engine.Engine
	o       Options
	conn    *wire.Conn
	history *history.DB // nil without NOTIFIER_HISTORY_URL
	calls   *callback.Handler
	server  *http.Server
	listen  net.Listener
	pages   *ui.Pages   // nil with NOTIFIER_UI=false
	page    *sidePage   // the metrics; nil without NOTIFIER_METRICS_LISTEN
	pprof   *sidePage   // the profiles; nil without NOTIFIER_PPROF_LISTEN
	setup   *setupWatch // nil for a Redis to throw away
	leave   leaving
}

// ErrConfig is what errors of New and Run wrap that better configuration would
// mend.
var ErrConfig = engine.ErrConfig

// New makes a process from its configuration and listens, so that an address
// that is taken is told at once. It does not wait for Redis.
func New(o Options) (*Process, error) {
	c := o.Config
	table, err := route.NewTable(c.Routes)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	conn, err := wire.Open(wire.Address{Mode: c.Redis.Mode, URL: c.Redis.URL, TLS: c.Redis.TLS, SentinelUsername: c.Redis.SentinelUsername, SentinelPassword: string(c.Redis.SentinelPassword)})
	if err != nil {
		return nil, fmt.Errorf("%w: NOTIFIER_REDIS_URL: %w", ErrConfig, err)
	}
	p := &Process{o: o, conn: conn, listen: o.Listener}
	if p.history, err = openHistory(c.History); err != nil {
		_ = conn.Close()
		return nil, err
	}
	calls := callback.New(callback.Options{Logger: o.Logger, Concurrency: c.Concurrency, UserAgent: "notifier/" + o.Version,
		Fleet: callback.Fleet{View: func() callback.View { return fleetView{p.Fleet().View()} }, Shared: c.Limits != config.LimitsInstance,
			Tell: func(text string) { p.TellAll(text) }, Hand: func(h callback.Handed) { p.HandOver(h) }}})
	p.calls = calls
	for _, r := range c.Routes {
		if k := r.Target.Kind; k == route.KindFixed || k == route.KindNotice {
			if err := calls.Prepare(r); err != nil {
				p.disconnect()
				return nil, fmt.Errorf("%w: route %s: %w", ErrConfig, r.Name, err)
			}
		}
	}
	var allowed func(context.Context) error
	if !o.Throwaway {
		allowed = func(ctx context.Context) error {
			err := doctor.Allowed(ctx, c, conn)
			if errors.Is(err, doctor.ErrRights) {
				err = fmt.Errorf("%w: %w", ErrConfig, err)
			}
			return err
		}
	}
	m := metrics.New(metrics.Options{Version: o.Version, Revision: o.Revision, Routes: c.Routes, History: p.history != nil})
	if !o.Throwaway {
		p.setup = newSetupWatch(setupWatch{metrics: m, logger: o.Logger,
			examine: func(ctx context.Context) ([]doctor.Finding, error) { return doctor.Setup(ctx, c, conn) },
			servers: func(ctx context.Context) (string, error) { return doctor.Servers(ctx, conn) }})
	}
	space := keys.Space{Namespace: c.Namespace, Shards: c.Shards}
	names := []string{}
	for _, x := range c.Clients {
		names = append(names, x.Name)
	}
	p.Engine = engine.New(engine.Options{Conn: conn, Space: space, Routes: table,
		Handler: engine.Handlers(conn, space, calls, o.Logger), Instance: c.Instance, Version: o.Version, Takeover: c.Takeover, Limits: c.Limits, Hosts: hosts{calls}, Messages: calls,
		Concurrency: c.Concurrency, Grace: c.Grace, Retention: c.Retention,
		Retain: int(c.Retain), RepeatWindow: c.RepeatWindow, RepeatBytes: c.RepeatBytes, MaxBody: c.MaxBody, ConfigureRedis: c.ConfigureRedis, MakeKey: len(c.Key) == 0, Allowed: allowed, Clients: names,
		Confirm:       wire.Confirm{Durability: c.Durability, Timeout: c.DurabilityTimeout},
		ConfirmSettle: wire.Confirm{Durability: c.DurabilitySettle, Timeout: c.DurabilityTimeout},
		Drain:         c.ShutdownTimeout, OnSubscribed: p.setup.subscribed,
		History: engine.History{DB: p.history, Bodies: history.Bodies(c.History.Bodies), Backlog: c.History.Backlog}, Metrics: m, Logger: o.Logger, LogAttempts: c.LogAttempts})
	m.Observe(p.Gauges)
	m.ObserveRedis(conn)
	m.ObserveFleet(func() metrics.Fleet { return metrics.Fleet(p.Fleet().Stats()) })
	if p.listen == nil {
		if p.listen, err = net.Listen("tcp", c.Listen); err != nil {
			p.disconnect()
			return nil, fmt.Errorf("NOTIFIER_LISTEN: %w", err)
		}
	}
	if err = p.listenBeside(m.Page(), api.NewKeySet(table)); err != nil {
		_ = p.listen.Close()
		p.page.close()
		p.disconnect()
		return nil, err
	}
	clients := make([]access.Client, 0, len(c.Clients))
	for _, x := range c.Clients {
		clients = append(clients, access.Client{Name: x.Name, Token: string(x.Token), Prefix: x.Prefix, Role: x.Role, Rate: x.Rate})
	}
	failures := access.NewFailures(access.FailuresOptions{Logger: o.Logger, Count: m.AuthenticationFailed})
	ring := keyring.New(p.Engine.Key)
	if len(c.Key) > 0 {
		ring = keyring.Fixed(c.Key)
	}
	calling := api.New(api.Options{Engine: p.Engine, Routes: table, Clients: clients, Failures: failures, MaxBody: c.MaxBody, Memory: c.APIMemory, Observer: m, Keys: ring, History: p.historian(), Eraser: p.eraser(), Replayer: p.replayer(), Metrics: m.Page(),
		Logger: o.Logger, LogCalls: api.LogCalls(c.LogCalls), Version: o.Version, Loopback: loopback(p.listen.Addr())})
	if c.UI {
		host, _, _ := net.SplitHostPort(c.Listen)
		pages := ui.Options{Engine: p.Engine, Routes: table, Mask: c.UIMask, Loopback: loopback(p.listen.Addr()), Host: host, Logger: o.Logger, Version: o.Version,
			Sessions: session.New(session.Options{Keys: ring, Clients: access.NewClients(clients), Register: p.Engine, Failures: failures}), Probe: calls.Probe, Keys: ring, Meter: access.NewMeter(clients), Health: p.Engine}
		if p.history != nil {
			pages.History = p.history
		}
		if !o.Throwaway {
			pages.Examine = func(ctx context.Context) (*doctor.Report, error) { return doctor.Run(ctx, c, doctor.Options{}) }
		}
		p.pages = ui.New(pages)
		calling = p.pages.Beside(calling)
	}
	p.server = api.Server(p.leave.handler(remote.Proxies(c.TrustedProxies).Handler(calling)), c.Listen)
	return p, nil
}

// listenBeside takes the addresses of the metrics and of the profiles.
func (p *Process) listenBeside(metrics, keySet http.Handler) (err error) {
	if p.page, err = listenBeside("NOTIFIER_METRICS_LISTEN", p.o.Config.MetricsListen, "metrics", metricsOnly(metrics, keySet)); err != nil {
		return err
	}
	p.pprof, err = listenBeside("NOTIFIER_PPROF_LISTEN", p.o.Config.PprofListen, "profiles", profiles())
	return err
}

// fleetView is the fleet as callbacks see it.
type fleetView struct{ *fleet.View }

// Among implements callback.View.
func (v fleetView) Among(name string, limit int) callback.View {
	return fleetView{v.View.Among(name, limit)}
}

func loopback(a net.Addr) bool {
	t, ok := a.(*net.TCPAddr)
	return !ok || t.IP.IsLoopback()
}

// disconnect closes the connections to Redis and to the history's database.
func (p *Process) disconnect() {
	_ = p.conn.Close()
	if p.history != nil {
		_ = p.history.Close()
	}
}

// Addr is where the API listens.
func (p *Process) Addr() string { return p.listen.Addr().String() }

// MetricsAddr is where the metrics alone are served; empty if nowhere.
func (p *Process) MetricsAddr() string { return p.page.addr() }

// PprofAddr is the address of the profiles; empty if they are not served.
func (p *Process) PprofAddr() string { return p.pprof.addr() }

// Run serves and delivers until ctx ends and the shutdown delay is over, then stops in this
// order: the API takes no new calls and answers those it has, claims end, running handlers
// finish and are settled, what was being scheduled is over, the metrics' own
// address and the connections close.
// How Redis is set up is examined beside all that. It returns nil after an
// orderly stop.
func (p *Process) Run(ctx context.Context) error {
	for _, line := range config.Describe(p.o.Config) {
		p.o.Logger.Info(line)
	}
	p.o.Logger.Info("listening", zap.String("address", p.Addr()), zap.String("version", p.o.Version), zap.String("redis", p.o.Config.Redis.String()),
		zap.String("metrics", p.MetricsAddr()))
	ctx, cancelDelay := p.delay(ctx)
	defer cancelDelay()
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
	if p.pages != nil {
		g.Go(func() error { return p.pages.Run(ctx) })
	}
	g.Go(p.page.serve)
	g.Go(p.pprof.serve)
	g.Go(func() error { return p.setup.Run(ctx) })
	g.Go(func() error {
		// Until the last handler has ended: how a stop goes is worth a scrape too.
		defer p.page.close()
		defer p.pprof.close()
		return p.Engine.Run(ctx)
	})
	err := g.Wait()
	// The API has ended, so nobody waits for what is on its way to Redis still.
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	p.Engine.Close(last)
	cancel()
	p.calls.Close()
	p.disconnect()
	if err == nil {
		p.o.Logger.Info("stopped")
	}
	return err
}
