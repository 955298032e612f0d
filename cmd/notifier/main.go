// Command notifier delivers delayed callbacks on time, and retries until the receiver
// acknowledges. See README.md.
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"notifier/internal/app"
	"notifier/internal/cli"
	"notifier/internal/config"
)

// version and revision, the commit, are set by the linker: see Dockerfile and
// scripts/release.sh.
var version, revision = "", ""

// builtVersion returns the linker's version, or the one that Go records for a build from a
// tagged module or a git checkout.
func builtVersion() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}

	return "devel"
}

// gcPercent lets the heap grow to five times the live data before a garbage collection. With the default of 100, a
// busy service would collect so often that it uses a good part of a core. The variable GOGC overrides gcPercent.
const gcPercent = 400

// secondSignal is closed by a second signal that comes within delay after the first: it ends
// the shutdown delay. After that, as without a delay, another signal ends the process at once.
func secondSignal(delay time.Duration, stops []os.Signal) <-chan struct{} {
	if delay <= 0 {
		return nil
	}

	signals, second := make(chan os.Signal, 2), make(chan struct{})
	signal.Notify(signals, stops...)
	go func() {
		defer close(second)
		defer signal.Stop(signals)
		<-signals
		select {
		case <-signals:
		case <-time.After(delay):
		}
	}()
	return second
}

// stopSignals returns the signals that ask for an orderly stop. It also makes them and SIGPIPE harmless where that is due:
// a write to a closed pipe returns an error and does not end the process, and a closed terminal, which may send SIGHUP
// twice, does not end a stop. The signals are caught and not ignored, because commands of consume would inherit that.
func stopSignals() []os.Signal {
	stops, discard := []os.Signal{os.Interrupt, syscall.SIGTERM}, make(chan os.Signal, 1)
	signal.Notify(discard, syscall.SIGPIPE)
	if !signal.Ignored(syscall.SIGHUP) { // as under nohup
		signal.Notify(discard, syscall.SIGHUP)
		stops = append(stops, syscall.SIGHUP)
	}

	return stops
}

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}

	// The first signal asks for an orderly stop; a second one ends at once.
	stops := stopSignals()
	ctx, stop := signal.NotifyContext(context.Background(), stops...)
	context.AfterFunc(ctx, stop)
	code := cli.Main(ctx, cli.Process{Args: os.Args[1:], Environ: os.Environ(), Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Version: builtVersion()},
		cli.Deps{
			Serve: func(ctx context.Context, c *config.Config, o cli.ServeOptions) error {
				return app.Serve(ctx, c, app.ServeOptions{Version: o.Version, Revision: revision, Embedded: o.Embedded,
					Hurry: secondSignal(c.ShutdownDelay, stops)})
			},
		})
	stop()
	os.Exit(code)
}
