package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/sethvargo/go-envconfig"
	"go.uber.org/zap"

	"notifier/client"
	"notifier/internal/app"
	"notifier/internal/config"
	"notifier/internal/embedded"
	"notifier/internal/notice"
	"notifier/internal/store"
)

// demoKind is one kind of traffic: a route of the demonstration with a dashboard.
type demoKind struct {
	name  string
	share int           // percent of all notices
	most  time.Duration // delays are random, up to this
	about string
}

// demoTraffic lists the routes. newDemoMerchants starts their receivers.
var demoTraffic = []demoKind{
	{"pay", 55, 10 * time.Second, "its receiver accepts most payments at once and refuses some at first"},
	{"order", 25, 10 * time.Minute, "unpaid orders that are closed later"},
	{"refund", 15, 5 * time.Second, "its receiver always answers 500: dead letters"},
	{"parcel", 5, 5 * time.Second, "its receiver never answers: timeouts and an open breaker"},
}

// demoPace is the time between two notices.
const demoPace = 200 * time.Millisecond

// demoMerchants are the receivers of the demonstration with a dashboard.
type demoMerchants struct {
	good, failing, hanging *http.Server
	urls                   map[string]string // by route
}

func newDemoMerchants() (*demoMerchants, error) {
	m := &demoMerchants{urls: map[string]string{}}
	for _, r := range []struct {
		server **http.Server
		serve  http.HandlerFunc
		routes []string
	}{
		{&m.good, mostlyAccepts, []string{"pay", "order"}},
		{&m.failing, refuses, []string{"refund"}},
		{&m.hanging, hangs, []string{"parcel"}},
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			m.close()
			return nil, err
		}

		server := &http.Server{Handler: r.serve, ReadHeaderTimeout: time.Second}
		*r.server = server
		for _, name := range r.routes {
			m.urls[name] = "http://" + l.Addr().String() + "/" + name
		}

		go func() { _ = server.Serve(l) }()
	}

	return m, nil
}

func (m *demoMerchants) close() {
	for _, s := range []*http.Server{m.good, m.failing, m.hanging} {
		if s != nil {
			_ = s.Close()
		}
	}
}

// mostlyAccepts refuses one in eight first attempts.
func mostlyAccepts(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Notifier-Attempt") == "1" && rand.IntN(8) == 0 {
		http.Error(w, "the database is busy", http.StatusServiceUnavailable)
		return
	}
	_, _ = w.Write([]byte("success"))
}

func refuses(w http.ResponseWriter, _ *http.Request) {
	http.Error(w, "cannot book the refund", http.StatusInternalServerError)
}

// hangs never answers. It reads the body first, because only then does the server notice a closed connection.
func hangs(_ http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	<-r.Context().Done()
}

// keepDemo runs a service with traffic and its dashboard until ctx ends, and then returns nil. It prints the address of the
// dashboard, which only this machine can reach.
func keepDemo(ctx context.Context, o DemoOptions) error {
	begin := embedded.Start
	if o.Emulated {
		begin = func(context.Context) (*embedded.Server, error) { return embedded.StartEmulated() }
	}

	redis, err := begin(ctx)
	if err != nil {
		return fmt.Errorf("start Redis: %w", err)
	}

	defer redis.Close()
	to, err := newDemoMerchants()
	if err != nil {
		return err
	}

	defer to.close()
	dir, err := os.MkdirTemp("", "notifier-demo")
	if err != nil {
		return fmt.Errorf("create a directory for the history: %w", err)
	}

	defer func() { _ = os.RemoveAll(dir) }() // the system clears its temporary directory
	p, err := keptDemo(redis, to, filepath.Join(dir, "history.db"), o.Version)
	if err != nil {
		return err
	}

	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	done := make(chan error, 1)
	go func() { done <- p.Run(run) }()
	select {
	case <-p.Subscribed():
		introduceDemo(o, redis, p)
		err = playDemo(ctx, p)
	case err = <-done:
		return fmt.Errorf("the service ended: %w", err)
	case <-ctx.Done():
	}

	if ctx.Err() != nil {
		printTo(o.Stdout, "\ninterrupted\n")
	}

	stop()
	return errors.Join(err, <-done)
}

func introduceDemo(o DemoOptions, redis *embedded.Server, p *app.Process) {
	printTo(o.Stdout, "redis      %s\n", redis.Kind)
	for _, s := range demoTraffic {
		printTo(o.Stdout, "route      %-7s %s\n", s.name, s.about)
	}

	printTo(o.Stdout, "dashboard  http://%s/ui/\n\nTraffic continues until Ctrl-C. No data is kept.\n", p.Addr())
}

// keptDemo returns a service with a configuration from environment variables.
func keptDemo(redis *embedded.Server, to *demoMerchants, history, version string) (*app.Process, error) {
	env := map[string]string{"NOTIFIER_REDIS_URL": redis.URL, "NOTIFIER_LISTEN": "127.0.0.1:0", "NOTIFIER_ROUTES": "pay,order,refund,parcel",
		"NOTIFIER_HISTORY_URL": "sqlite://" + history, "NOTIFIER_SHUTDOWN_TIMEOUT": "2s", "NOTIFIER_INSTANCE": "demo"}
	for _, s := range demoTraffic {
		name := "NOTIFIER_ROUTE_" + strings.ToUpper(s.name)
		env[name+"_PREFIX"], env[name+"_TARGET"] = "demo:"+s.name, to.urls[s.name]
		env[name+"_RETRY"], env[name+"_TIMEOUT"] = "1s,3s,5s", "2s"
	}

	c, err := config.Load(envconfig.MapLookuper(env), nil, os.ReadFile)
	if err != nil {
		return nil, fmt.Errorf("the configuration of the demonstration: %w", err)
	}

	return app.New(app.Options{Config: c, Version: version, Logger: zap.NewNop(), Throwaway: redis.Emulated})
}

// playDemo schedules notices and operates the service until ctx ends.
func playDemo(ctx context.Context, p *app.Process) error {
	c, err := client.New(client.Options{URL: "http://" + p.Addr()})
	if err != nil {
		return err
	}

	defer c.Close()
	tick := time.NewTicker(demoPace)
	defer tick.Stop()
	for n := 0; ; n++ {
		if err := ctx.Err(); err != nil {
			return nil
		}

		scheduleDemo(ctx, p, n)
		operateDemo(ctx, c, n)
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// scheduleDemo schedules the nth notice, and skips it if Redis refuses.
func scheduleDemo(ctx context.Context, p *app.Process, n int) {
	at := rand.IntN(100)
	for _, s := range demoTraffic {
		if at -= s.share; at >= 0 {
			continue
		}

		body := fmt.Sprintf(`{"order":"%d","amount":"%d.%02d","status":"paid"}`, 100_000+n, 1+rand.IntN(300), rand.IntN(100))
		_, _ = p.Schedule(ctx, store.Request{Key: fmt.Sprintf("demo:%s:notice:%d", s.name, 100_000+n), Delay: rand.N(s.most),
			Content: notice.Content{Body: []byte(body)}})
		return
	}
}

// Numbers of notices in a cycle of one minute at which operateDemo acts.
const (
	pauseAt, resumeAt, replayAt, demoCycle = 50, 75, 125, 300
)

// operateDemo pauses and resumes a route and replays delivered notices, so that the audit and the replays have entries. A
// failed call is made again in the next cycle.
func operateDemo(ctx context.Context, c *client.Client, n int) {
	switch n % demoCycle {
	case pauseAt:
		_, _ = c.Pause(ctx, "order")
	case resumeAt:
		_, _ = c.Resume(ctx, "order")
	case replayAt:
		_, _ = c.Replay(ctx, client.ReplayRequest{Since: time.Now().Add(-10 * time.Second), Prefix: "demo:pay",
			Outcome: []client.State{client.Delivered}, Rate: "2/s"})
	}
}
