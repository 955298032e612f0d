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

	"notifier/internal/api"
	"notifier/internal/auth"
	"notifier/internal/callback"
	"notifier/internal/config"
	"notifier/internal/doctor"
	"notifier/internal/engine"
	"notifier/internal/fleet"
	"notifier/internal/keys"
	"notifier/internal/problems"
	"notifier/internal/route"
	"notifier/internal/telemetry"
	"notifier/internal/tracing"
	"notifier/internal/ui"
	"notifier/internal/wire"
	_ "notifier/worker/pghistory"     // for postgres://
	_ "notifier/worker/sqlitehistory" // for sqlite:///
)

// Options of a Process.
type Options struct {
	Config *config.Config
	// Version and Revision are those of the program.
	Version, Revision string
	Logger            *zap.Logger
	// Log receives the lines of log targets; nil discards them.
	Log *Log
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
	o         Options
	table     *route.Table
	conn      *wire.Conn
	metrics   *telemetry.Metrics
	history   engine.History // without a DB if NOTIFIER_HISTORY_URL is empty
	calls     *callback.Handler
	server    *http.Server
	listen    net.Listener
	pages     *ui.Pages // nil with NOTIFIER_UI=false
	sampler   *problems.Sampler
	page      *sidePage   // the metrics; nil without NOTIFIER_METRICS_LISTEN
	pprof     *sidePage   // the profiles; nil without NOTIFIER_PPROF_LISTEN
	setup     *setupWatch // nil for a Redis to throw away
	telemetry *telemetry.Telemetry
	leave     leaving
}

// ErrConfig is wrapped by errors of New and Run that another configuration avoids.
var ErrConfig = engine.ErrConfig

// New creates a process from its configuration and listens, so that an address that is in use is
// reported at once. It does not wait for Redis.
func New(o Options) (_ *Process, err error) {
	p := &Process{o: o, listen: o.Listener}
	if p.table, err = route.NewTable(o.Config.Routes); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}

	defer func() {
		if err != nil {
			p.dropTelemetry()
			p.disconnect()
		}
	}()
	if err = p.connect(); err != nil {
		return nil, err
	}
	if err = p.newCalls(); err != nil {
		return nil, err
	}

	p.newEngine()
	if err = p.takeAddresses(); err != nil {
		return nil, err
	}

	p.server = api.Server(p.leave.handler(auth.Proxies(o.Config.TrustedProxies).Handler(p.newHandler())), o.Config.Listen)
	return p, nil
}

// connect makes the ways to Redis and to the history's database, and speaks to neither.
func (p *Process) connect() (err error) {
	r := p.o.Config.Redis
	p.conn, err = wire.Open(wire.Address{Mode: r.Mode, URL: r.URL, TLS: r.TLS, SentinelUsername: r.SentinelUsername,
		SentinelPassword: string(r.SentinelPassword)})
	if err != nil {
		return fmt.Errorf("%w: NOTIFIER_REDIS_URL: %w", ErrConfig, err)
	}

	p.history, err = engine.OpenHistory(p.o.Config.History)
	return err
}

// newCalls makes what callbacks are made by.
func (p *Process) newCalls() error {
	c := p.o.Config
	p.calls = callback.New(callback.Options{Logger: p.o.Logger, Concurrency: c.Concurrency, UserAgent: "notifier/" + p.o.Version,
		Fleet: peers{p}, Shared: c.Limits != route.LimitsInstance,
		HostLimits: func(prefix, host string) (float64, int) { return p.HostLimits(prefix, host) }})
	for _, r := range c.Routes {
		if r.Target.Kind != route.KindFixed && r.Target.Kind != route.KindNotice {
			continue
		}
		if err := p.calls.Prepare(r); err != nil {
			return fmt.Errorf("%w: route %s: %w", ErrConfig, r.Name, err)
		}
	}

	return nil
}

// newEngine makes the engine, and the metrics that observe it.
func (p *Process) newEngine() {
	o, c := p.o, p.o.Config
	p.metrics = telemetry.NewMetrics(telemetry.MetricsOptions{Version: o.Version, Revision: o.Revision, Routes: c.Routes,
		History: p.history.DB != nil, Telemetry: c.Telemetry.Traces != nil || c.Telemetry.Metrics != nil, LogDropped: o.Log.Dropped})
	p.newTelemetry()

	space := keys.Space{Namespace: c.Namespace, Shards: c.Shards}
	taps := tracing.NewPublisher(tracing.PublisherOptions{Mask: c.UIMask, Observer: p.metrics, Logger: o.Logger})
	names := []string{}
	for _, x := range c.Clients {
		names = append(names, x.Name)
	}

	e := engine.Options{
		Conn: p.conn, Space: space, Routes: p.table, Clients: names, Owners: c.Owners(), ConfigureRedis: c.ConfigureRedis,
		MakeKey: len(c.Key) == 0, SealKeys: c.SealKeys, SealKeep: c.SealKeep,
		Handler: engine.Handlers(p.conn, space, p.calls, taps, o.Log), Taps: taps, Hosts: hosts{p.calls}, Messages: p.calls,
		Instance: c.Instance, Version: o.Version, Takeover: c.Takeover, Limits: c.Limits,
		Concurrency: c.Concurrency, Grace: c.Grace, Drain: c.ShutdownTimeout, MaxBody: c.MaxBody,
		Retention: c.Retention, Retain: int(c.Retain), RepeatWindow: c.RepeatWindow, RepeatBytes: c.RepeatBytes,
		Confirm:       wire.Confirm{Durability: c.Durability, Timeout: c.DurabilityTimeout},
		ConfirmSettle: wire.Confirm{Durability: c.DurabilitySettle, Timeout: c.DurabilityTimeout},
		History:       p.history,
		AlarmRoute:    c.Alarm, PublicURL: c.PublicURL,
		Tracer: p.telemetry.Tracer(), Metrics: p.metrics, Logger: o.Logger, Log: o.Log, LogAttempts: c.LogAttempts}
	if !o.Throwaway {
		setup := redisSetup{c, p.conn}
		p.setup = newSetupWatch(setupWatch{redis: setup, metrics: p.metrics, logger: o.Logger})
		e.Rights, e.Subscriptions = setup, p.setup
	}

	p.Engine = engine.New(e)

	p.metrics.Observe(p.Gauges)
	p.metrics.ObserveRedis(p.conn)
	p.metrics.ObserveTaps(p.Taps)
	p.metrics.ObserveShortages(p.ShortSince)
	p.metrics.ObserveFleet(func() telemetry.Fleet { return telemetry.Fleet(p.Fleet().Stats()) })
}

// takeAddresses listens.
func (p *Process) takeAddresses() (err error) {
	if p.listen == nil {
		if p.listen, err = net.Listen("tcp", p.o.Config.Listen); err != nil {
			return fmt.Errorf("NOTIFIER_LISTEN: %w", err)
		}
	}

	if err = p.listenBeside(p.metrics.Page(), api.NewKeySet(p.table)); err != nil {
		_ = p.listen.Close()
		p.page.close()
	}

	return err
}

// newHandler makes the API, and the pages beside it.
func (p *Process) newHandler() http.Handler {
	o, c := p.o, p.o.Config
	clients := config.Callers(c.Clients)
	failures := auth.NewFailures(auth.FailuresOptions{Logger: o.Logger, Count: p.metrics.AuthenticationFailed})
	ring := wire.NewKeyRing(p.Engine.Key)
	if len(c.Key) > 0 {
		ring = wire.FixedKey(c.Key)
	}

	tests := api.NewTestSender(api.TestOptions{Routes: p.table, Probe: p.calls.Probe, Mask: c.UIMask})

	figures := problems.SamplerOptions{Engine: p.Engine, Routes: p.table, Health: p.Engine, Now: p.Engine.Now}
	if !o.Throwaway {
		figures.Examine = func(ctx context.Context) (*doctor.Report, error) { return doctor.Run(ctx, c, doctor.Options{}) }
	}

	p.sampler = problems.NewSampler(figures)
	a := api.Options{Engine: p.Engine, Recurrences: p.Engine.Recurrences(),
		Routes: p.table, Clients: clients, Failures: failures, MaxBody: c.MaxBody, Memory: c.APIMemory,
		Tracer: p.telemetry.Tracer(), Observer: p.metrics, Keys: ring, Metrics: p.metrics.Page(), Tests: tests, Mask: c.UIMask,
		Logger: o.Logger, LogCalls: api.LogCalls(c.LogCalls), Version: o.Version, Loopback: auth.LocalOnly(p.listen.Addr()),
		Sampler: p.sampler, Pages: c.UI}
	if p.history.DB != nil {
		a.History, a.Eraser, a.Replayer = p.history.DB, p.Engine, p.Engine.Replays()
	}

	calling := api.New(a)
	if !c.UI {
		return calling
	}

	pages := ui.Beside(&a, p.Engine)
	pages.Host, _, _ = net.SplitHostPort(c.Listen)
	p.pages = ui.New(pages)
	return p.pages.Beside(calling)
}

// listenBeside takes the addresses of the metrics and of the profiles.
func (p *Process) listenBeside(metrics, keySet http.Handler) (err error) {
	if p.page, err = listenBeside("NOTIFIER_METRICS_LISTEN", p.o.Config.MetricsListen, "metrics", metricsOnly(metrics, keySet)); err != nil {
		return err
	}

	p.pprof, err = listenBeside("NOTIFIER_PPROF_LISTEN", p.o.Config.PprofListen, "profiles", profiles())
	return err
}

// peers are the other instances, as callbacks reach them.
type peers struct{ p *Process }

// View implements callback.Fleet.
func (f peers) View(prefix string) callback.View { return fleetView{f.p.Fleet().View().Of(prefix)} }

// Broadcast implements callback.Fleet.
func (f peers) Broadcast(text string) { f.p.Broadcast(text) }

// HandOver implements callback.Fleet.
func (f peers) HandOver(h callback.Handover) { f.p.HandOver(h) }

// fleetView is the fleet as callbacks see it.
type fleetView struct{ *fleet.View }

// Sharers implements callback.View.
func (v fleetView) Sharers(name string, limit int) callback.View {
	return fleetView{v.View.Sharers(name, limit)}
}

// dashboardURL is the address of the pages for a browser on this machine.
func dashboardURL(a net.Addr) string {
	host, port, err := net.SplitHostPort(a.String())
	if ip := net.ParseIP(host); err == nil && ip != nil && ip.IsUnspecified() {
		return "http://" + net.JoinHostPort("localhost", port) + ui.Root
	}

	return "http://" + a.String() + ui.Root
}

// disconnect closes the connections to Redis and to the history's database.
func (p *Process) disconnect() {
	if p.conn != nil {
		_ = p.conn.Close()
	}
	if p.history.DB != nil {
		_ = p.history.DB.Close()
	}
}

// Addr is where the API listens.
func (p *Process) Addr() string { return p.listen.Addr().String() }

// MetricsAddr is where the metrics alone are served; empty if nowhere.
func (p *Process) MetricsAddr() string { return p.page.addr() }

// PprofAddr is the address of the profiles; empty if they are not served.
func (p *Process) PprofAddr() string { return p.pprof.addr() }

// stopReserve is the time that deployments add to NOTIFIER_SHUTDOWN_TIMEOUT before they kill the process.
const stopReserve = 5 * time.Second

// Run serves the API and delivers notices until ctx ends, and then for up to NOTIFIER_SHUTDOWN_DELAY. Then it stops in
// order: it lets API calls and running attempts end, for a limited time, and closes the connections to Redis and to the
// history. Run returns nil after an orderly stop.
func (p *Process) Run(ctx context.Context) error {
	for _, line := range config.Describe(p.o.Config) {
		p.o.Logger.Info(line)
	}

	for _, f := range doctor.Machine(p.o.Config) {
		if f.Severity != doctor.OK {
			p.o.Logger.Warn("a limit of this machine is too low", zap.String("problem", f.Message), zap.String("remedy", f.Remedy))
		}
	}

	p.o.Logger.Info("listening", zap.String("address", p.Addr()), zap.String("version", p.o.Version),
		zap.String("redis", p.o.Config.Redis.String()), zap.String("metrics", p.MetricsAddr()))
	if p.pages != nil {
		p.o.Logger.Info("dashboard", zap.String("url", dashboardURL(p.listen.Addr())))
	}

	var end time.Time // when the process must have ended
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
		end = time.Now().Add(p.o.Config.ShutdownTimeout + stopReserve - closeWait)
		p.o.Logger.Info("stopping")
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.o.Config.ShutdownTimeout)
		defer cancel()
		if err := p.server.Shutdown(stop); err != nil {
			return p.server.Close()
		}

		return nil
	})
	if p.pages == nil {
		g.Go(func() error { p.sampler.Run(ctx); return nil })
	} else {
		g.Go(func() error { return p.pages.Run(ctx) })
	}

	g.Go(p.page.serve)
	g.Go(p.pprof.serve)
	g.Go(func() error { return p.setup.Run(ctx) })
	g.Go(func() error { return p.telemetry.Run(ctx) })
	g.Go(func() error {
		// Until the last handler has ended: how a stop goes is worth a scrape too.
		defer p.page.close()
		defer p.pprof.close()
		return p.Engine.Run(ctx)
	})
	err := g.Wait()
	ctx, cancelEnd := context.WithDeadline(context.WithoutCancel(ctx), end)
	defer cancelEnd()
	// The API has ended, so no caller waits for schedule calls that are still being written.
	last, cancel := context.WithTimeout(ctx, time.Second)
	p.Engine.Close(last)
	cancel()
	p.calls.Close()
	p.closeTelemetry(ctx)
	p.disconnect()
	if err == nil {
		p.o.Logger.Info("stopped")
	}

	return err
}
