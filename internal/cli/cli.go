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
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/store"
)

// Exit codes.
const (
	exitDone   = 0
	exitFailed = 1
	exitWrong  = 2
)

// Process is the environment of a process.
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
	// Embedded serves from a Redis in this process, for development.
	Embedded bool
	Version  string
	Stdout   io.Writer
	Stderr   io.Writer
}

// DemoOptions are the flags of demo.
type DemoOptions struct {
	// Emulated uses the Redis in this process even if redis-server is installed.
	Emulated bool
	// Keep runs with traffic and the dashboard until the context ends.
	Keep    bool
	Version string
	Stdout  io.Writer
	Stderr  io.Writer
}

// Deps are the functions of other packages that commands call.
type Deps struct {
	Serve func(ctx context.Context, c *config.Config, o ServeOptions) error
	// Demo runs the demonstration. Nil means this package's.
	Demo func(ctx context.Context, o DemoOptions) error
	// Probe makes one callback. Nil means the function of package callback.
	Probe func(ctx context.Context, r *route.Route, n *notice.Notice) callback.Exchange
}

// command is one run of the command line.
type command struct {
	Process
	deps Deps
	env  map[string]string

	api  string // --api
	json bool   // --json

	screen screen     // kind of Stdout
	pipe   *pipe      // Stdout
	waited *sync.Once // to report a retry once

	// running is the command that has started. Errors before are usage errors.
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
	a.pipe = &pipe{Writer: p.Stdout}
	a.Stdout, a.screen.w = a.pipe, a.pipe
	return a
}

// Main runs the command line and returns the exit code.
func Main(ctx context.Context, p Process, d Deps) int {
	a := newCommand(p, d)
	root := a.root()
	root.SetArgs(p.Args)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	a.pipe.end = func() {
		if a.prints() {
			cancel()
		}
	}
	ran, err := root.ExecuteContextC(ctx)
	if err == nil || a.pipe.closed.Load() && a.prints() {
		return exitDone
	}
	if a.reportConfig(err) {
		return exitWrong
	}

	var wrong *usageError
	switch {
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

// reportConfig prints or logs an error of the configuration, and reports whether err is one.
func (a *command) reportConfig(err error) bool {
	var conf config.Errors
	switch {
	case errors.As(err, &conf) && a.running != nil && a.running.Name() == "serve" && a.env["NOTIFIER_LOG_FORMAT"] == "json":
		a.logWrong(conf)
	case errors.As(err, &conf):
		a.complain("wrong configuration:\n%v", err)
	case errors.Is(err, app.ErrConfig), errors.Is(err, store.ErrLayout):
		if !errors.Is(err, app.ErrLogged) {
			a.complain("notifier: %v", err)
		}
	default:
		return false
	}

	return true
}

func (a *command) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "notifier",
		Short: "Delivers callbacks on time and retries until they are acknowledged",
		Long: `notifier stores notices in Redis, delivers each when it is due, and retries it on a
ladder of delays until it is acknowledged or dead.

Start here:
  notifier demo                     see it work; needs no other software
  notifier routes                   check the configuration
  notifier doctor                   check Redis
  notifier serve                    run the service

Commands that show or change notices call the HTTP API at NOTIFIER_URL (or --api; by default
http://127.0.0.1:8080) with the token in NOTIFIER_TOKEN, or in the file NOTIFIER_TOKEN_FILE.

Exit codes: 0 done, 1 failed, 2 wrong usage or configuration.`,
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
	group("run", a.serve(), a.demo(), a.receive(), a.listen(), a.reshard(), a.migrate(), a.seal())
	group("notices", a.schedule(), a.trigger(), a.get(), a.open(), a.list(), a.search(), a.cancel(), a.fire(), a.reschedule(), a.dead(),
		a.redrive(),
		a.resend(), a.purge(), a.importing(), a.receivers(), a.pause(), a.resume(), a.limit(), a.stats(), a.problems(), a.instances(), a.audit(),
		a.portalLink(), a.history(), a.monthReport(), a.replay(), a.redirect(), a.jobs(), a.erase(), a.forget(), a.export(), a.recur())
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

// mark records when a command starts.
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

// apiOptions returns the address of the API and the token.
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

// waits reports, once, that a call is retried, so that a command does not seem to hang.
func (a *command) waits(err error, _ time.Duration) {
	a.waited.Do(func() { a.complain("notifier: retrying: %s", a.explain(err)) })
}

// client returns a client of the API.
func (a *command) client() (*client.Client, error) {
	o, err := a.apiOptions()
	if err != nil {
		return nil, err
	}

	return client.New(o)
}

// fetch makes one call of the API.
func fetch[T any](a *command, call func(c *client.Client) (T, error)) (answer T, err error) {
	c, err := a.client()
	if err != nil {
		return answer, err
	}

	defer c.Close()
	return call(c)
}

// config reads the service's configuration as serve does.
func (a *command) config() (*config.Config, error) {
	return config.Load(envconfig.MapLookuper(a.env), a.Environ, os.ReadFile)
}

// withJSON adds --json to a command that prints.
func (a *command) withJSON(c *cobra.Command) *cobra.Command {
	c.Flags().BoolVar(&a.json, "json", false, "print JSON")
	return c
}

func (a *command) complain(format string, args ...any) {
	_, _ = fmt.Fprintf(a.Stderr, format+"\n", args...) // there is no other place to report
}

// say prints to the output. It ignores errors, which mean a closed pipe: see pipe.
func (a *command) say(format string, args ...any) { _, _ = fmt.Fprintf(a.Stdout, format, args...) }
