// Package cli is the command line: one file per command.
//
// Commands that look at notices speak to the HTTP API, found by NOTIFIER_URL
// and NOTIFIER_TOKEN; serve, doctor, routes and send-test read the service's own
// environment. Exit codes: 0 done, 1 failed, 2 wrong use or configuration.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/sethvargo/go-envconfig"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"notifier/internal/app"
	"notifier/internal/callback"
	"notifier/internal/client"
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
	Version  string
	Stdout   io.Writer
	Stderr   io.Writer
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

	// running is set once a command has begun: errors before it are wrong use.
	running bool
}

// Main runs the command line and returns the exit code.
func Main(ctx context.Context, p Process, d Deps) int {
	a := &command{Process: p, deps: d, env: map[string]string{}}
	for _, kv := range p.Environ {
		if name, value, ok := strings.Cut(kv, "="); ok {
			a.env[name] = value
		}
	}
	root := a.root()
	root.SetArgs(p.Args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitDone
	}
	var wrong *usageError
	var conf config.Errors
	switch {
	case errors.As(err, &conf):
		a.complain("the configuration is wrong:\n%v", err)
		return exitWrong
	case errors.Is(err, app.ErrConfig), errors.Is(err, store.ErrLayout):
		a.complain("notifier: %v", err)
		return exitWrong
	case errors.As(err, &wrong), !a.running:
		a.complain("notifier: %v\nnotifier --help shows how it is used", err)
		return exitWrong
	case errors.Is(err, errQuiet):
		return exitFailed
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		a.complain("notifier: interrupted")
		return exitFailed
	}
	a.complain("notifier: %v", err)
	return exitFailed
}

// usageError is the user's mistake, found after the command had begun.
type usageError struct{ err error }

func (u *usageError) Error() string { return u.err.Error() }
func (u *usageError) Unwrap() error { return u.err }

func usage(format string, a ...any) error { return &usageError{fmt.Errorf(format, a...)} }

// errQuiet fails a command that has said why already.
var errQuiet = errors.New("failed")

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
	group("run", a.serve(), a.demo(), a.receive())
	group("notices", a.schedule(), a.get(), a.list(), a.cancel(), a.fire(), a.reschedule(), a.redrive(), a.importing(), a.pause(),
		a.resume(), a.stats())
	group("consume", a.consume(), a.ack(), a.nack(), a.putOff())
	group("check", a.routes(), a.doctor(), a.sendTest(), a.bench())
	root.AddCommand(a.version())
	for _, c := range root.Commands() {
		a.mark(c)
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
		a.running = true
		return run(cmd, args)
	}
}

// suggestFlag adds the flag that was probably meant.
func suggestFlag(c *cobra.Command, err error) error {
	_, name, ok := strings.Cut(err.Error(), "unknown flag: --")
	if !ok {
		return err
	}
	best, least := "", 3
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if d := distance(name, f.Name); d < least || len(name) > 2 && strings.HasPrefix(f.Name, name) && least > 1 {
			best, least = f.Name, d
		}
	})
	if best == "" {
		return fmt.Errorf("%w of %s", err, c.CommandPath())
	}
	return fmt.Errorf("%w of %s; did you mean --%s?", err, c.CommandPath(), best)
}

// distance is the number of letters to change, add or drop.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			diagonal, row[j] = row[j], min(row[j]+1, row[j-1]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}

// client is a client of the API.
func (a *command) client() (*client.Client, error) {
	address := a.api
	if address == "" {
		address = a.env["NOTIFIER_URL"]
	}
	if address == "" {
		address = "http://127.0.0.1:8080"
	}
	token := a.env["NOTIFIER_TOKEN"]
	if file := a.env["NOTIFIER_TOKEN_FILE"]; file != "" {
		if token != "" {
			return nil, usage("NOTIFIER_TOKEN and NOTIFIER_TOKEN_FILE are both set; set one")
		}
		raw, err := os.ReadFile(file)
		if err != nil {
			return nil, usage("NOTIFIER_TOKEN_FILE: %w", err)
		}
		token = strings.TrimSpace(string(raw))
	}
	c, err := client.New(client.Options{URL: address, Token: token, UserAgent: "notifier-cli/" + a.Version})
	if err != nil {
		return nil, usage("%w", err)
	}
	return c, nil
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
