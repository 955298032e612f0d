package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/sethvargo/go-envconfig"
	"github.com/spf13/cobra"

	"notifier/client"
	"notifier/internal/app"
	"notifier/internal/callback"
	"notifier/internal/config"
	"notifier/internal/layout"
	"notifier/internal/notice"
	"notifier/internal/route"
)

// Exit codes.
const (
	exitDone   = 0
	exitFailed = 1
	exitWrong  = 2
)

// Process is what a process is given.
type Process struct {
	Args    []string // without the program's name
	Environ []string // NAME=value
	Stdin   io.Reader
	Stdout  io.Writer
	Stderr  io.Writer
	Version string
}

// ServeOptions are the flags of serve.
type ServeOptions struct {
	// Embedded serves from a Redis within the process, for development.
	Embedded bool
	Version  string
	Stdout   io.Writer
	Stderr   io.Writer
}

// DemoOptions are the flags of demo.
type DemoOptions struct {
	// Emulated uses the Redis within the process even if there is a real one.
	Emulated bool
	// Keep runs until the context ends, with traffic and the pages.
	Keep    bool
	Version string
	Stdout  io.Writer
	Stderr  io.Writer
}

// Deps are what other packages do for the commands.
type Deps struct {
	Serve func(ctx context.Context, c *config.Config, o ServeOptions) error
	Demo  func(ctx context.Context, o DemoOptions) error
	// Probe makes one callback. Nil means that of package callback.
	Probe func(ctx context.Context, r *route.Route, n *notice.Notice) callback.Exchange
}

// command is one run of the command line.
type command struct {
	Process
	deps Deps
	env  map[string]string

	api  string // --api
	json bool   // --json

	screen screen     // where Stdout leads
	waited *sync.Once // for what is said of calls that are repeated

	// running is the command that has begun; errors before it are wrong use.
	running *cobra.Command
}

func newCommand(p Process, d Deps) *command {
	a := &command{Process: p, deps: d, env: map[string]string{}, waited: new(sync.Once)}
	for _, kv := range p.Environ {
		if name, value, ok := strings.Cut(kv, "="); ok {
			a.env[name] = value
		}
	}
	a.screen = newScreen(p.Stdout, a.env)
	return a
}

// Main runs the command line and returns the exit code.
func Main(ctx context.Context, p Process, d Deps) int {
	a := newCommand(p, d)
	root := a.root()
	root.SetArgs(p.Args)
	ran, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitDone
	}
	var wrong *usageError
	var conf config.Errors
	switch {
	case errors.As(err, &conf) && a.running != nil && a.running.Name() == "serve" && a.env["NOTIFIER_LOG_FORMAT"] == "json":
		a.logWrong(conf)
		return exitWrong
	case errors.As(err, &conf):
		a.complain("the configuration is wrong:\n%v", err)
		return exitWrong
	case errors.Is(err, app.ErrConfig), errors.Is(err, layout.ErrLayout):
		if !errors.Is(err, app.ErrLogged) {
			a.complain("notifier: %v", err)
		}
		return exitWrong
	case errors.Is(err, app.ErrLogged):
		return exitFailed
	case errors.As(err, &wrong), a.running == nil:
		a.complain("notifier: %v\n%s", err, howTo(ran))
		return exitWrong
	case errors.Is(err, errQuietlyWrong):
		return exitWrong
	case errors.Is(err, errQuiet):
		return exitFailed
	case asksForWrong(err):
		a.complain("notifier: %s", a.explain(err))
		return exitWrong
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		a.complain("notifier: interrupted")
		return exitFailed
	}
	a.complain("notifier: %s", a.explain(err))
	return exitFailed
}

func (a *command) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "notifier",
		Short: "Tells merchants on time, again and again, until they acknowledge",
		Long: `notifier keeps notices in Redis, delivers each when it falls due, and repeats
it on a ladder of delays until it is acknowledged or dead.

Start here:
  notifier demo                     see it work; needs nothing installed
  notifier routes                   check the configuration before anything runs
  notifier doctor                   check Redis
  notifier serve                    run the service

The commands that look at notices call the HTTP API at NOTIFIER_URL (or --api;
http://127.0.0.1:8080 if absent) with the token of NOTIFIER_TOKEN, or of the file
NOTIFIER_TOKEN_FILE.

Exit codes: 0 done, 1 failed, 2 wrong use or configuration.`,
		SilenceUsage:               true,
		SilenceErrors:              true,
		SuggestionsMinimumDistance: 2,
		Version:                    a.Version,
	}
	root.SetIn(a.Stdin)
	root.SetOut(a.Stdout)
	root.SetErr(a.Stderr)
	root.SetFlagErrorFunc(suggestFlag)
	root.PersistentFlags().StringVar(&a.api, "api", "", "address of the HTTP API (default NOTIFIER_URL, or http://127.0.0.1:8080)")
	root.AddGroup(&cobra.Group{ID: "run", Title: "Run it:"}, &cobra.Group{ID: "notices", Title: "Notices:"},
		&cobra.Group{ID: "consume", Title: "Consumers of lists and streams:"}, &cobra.Group{ID: "check", Title: "Check and measure:"})
	group := func(id string, cmds ...*cobra.Command) {
		for _, c := range cmds {
			c.GroupID = id
			root.AddCommand(c)
		}
	}
	group("run", a.serve(), a.demo(), a.receive(), a.reshard(), a.migrate())
	group("notices", a.schedule(), a.trigger(), a.get(), a.list(), a.cancel(), a.fire(), a.reschedule(), a.redrive(), a.importing(), a.pause(),
		a.resume(), a.stats(), a.instances(), a.audit(), a.portalLink(), a.history(), a.replay(), a.erase(), a.export())
	group("consume", a.consume(), a.ack(), a.nack(), a.putOff())
	group("check", a.routes(), a.secret(), a.doctor(), a.sendTest(), a.bench())
	root.AddCommand(a.version())
	for _, c := range root.Commands() {
		for _, c := range append(c.Commands(), c) {
			a.mark(c)
			a.completeFlags(c)
		}
	}
	return root
}

// mark notes when a command begins.
func (a *command) mark(c *cobra.Command) {
	run := c.RunE
	if run == nil {
		return
	}
	c.RunE = func(cmd *cobra.Command, args []string) error {
		a.running = cmd
		a.sayTimes(cmd.Flags())
		return run(cmd, args)
	}
}

// apiOptions says where the API is, and with what token.
func (a *command) apiOptions() (client.Options, error) {
	o := client.Options{URL: "http://127.0.0.1:8080", Token: a.env["NOTIFIER_TOKEN"], UserAgent: "notifier-cli/" + a.Version, OnRetry: a.waits}
	from := "NOTIFIER_URL"
	switch {
	case a.api != "":
		o.URL, from = a.api, "--api"
	case a.env["NOTIFIER_URL"] != "":
		o.URL = a.env["NOTIFIER_URL"]
	}
	if _, err := client.New(client.Options{URL: o.URL}); err != nil {
		return o, usage("%s: %w", from, err)
	}
	from = "NOTIFIER_TOKEN"
	if file := a.env["NOTIFIER_TOKEN_FILE"]; file != "" {
		if o.Token != "" {
			return o, usage("NOTIFIER_TOKEN and NOTIFIER_TOKEN_FILE are both set; set one")
		}
		raw, err := os.ReadFile(file)
		if err != nil {
			return o, usage("NOTIFIER_TOKEN_FILE: %w", err)
		}
		o.Token, from = strings.TrimSpace(string(raw)), "NOTIFIER_TOKEN_FILE"
	}
	if _, err := client.New(o); err != nil {
		return o, usage("%s: %w", from, err)
	}
	return o, nil
}

// waits says, once, that a call is repeated: a command must not seem to hang.
func (a *command) waits(err error, _ time.Duration) {
	a.waited.Do(func() { a.complain("notifier: trying again: %s", a.explain(err)) })
}

// client is a client of the API.
func (a *command) client() (*client.Client, error) {
	o, err := a.apiOptions()
	if err != nil {
		return nil, err
	}
	return client.New(o)
}

// config is the service's configuration, as serve would read it.
func (a *command) config() (*config.Config, error) {
	return config.Load(envconfig.MapLookuper(a.env), a.Environ, os.ReadFile)
}

// withJSON adds --json to a reading command.
func (a *command) withJSON(c *cobra.Command) *cobra.Command {
	c.Flags().BoolVar(&a.json, "json", false, "print JSON")
	return c
}

func (a *command) complain(format string, args ...any) {
	_, _ = fmt.Fprintf(a.Stderr, format+"\n", args...) // where else should it be said
}

// say prints to the output. Its errors are those of a closed pipe: nobody reads on.
func (a *command) say(format string, args ...any) { _, _ = fmt.Fprintf(a.Stdout, format, args...) }
