package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"notifier/internal/config"
	"notifier/internal/embedded"
)

// ErrLogged marks errors of Serve that have been logged. The caller must not print them again, because
// log collectors may refuse lines that are not log entries.
var ErrLogged = errors.New("see the log")

// ServeOptions are the options of Serve.
type ServeOptions struct {
	// Version and Revision are those of the program; where Revision is empty,
	// that of the build is taken.
	Version, Revision string
	// Embedded starts an embedded Redis, for development.
	Embedded bool
	// Hurry ends NOTIFIER_SHUTDOWN_DELAY: see [Options].
	Hurry <-chan struct{}
}

// Serve runs a process until ctx ends.
func Serve(ctx context.Context, c *config.Config, o ServeOptions) error {
	log, err := NewLog(c.LogLevel, format(c.LogFormat, os.Stderr), os.Stderr)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}

	defer log.Close()
	// net/http logs errors that it cannot return with the standard logger.
	defer zap.RedirectStdLog(log.Logger)()
	redis.SetLogger(redisLog{log.Logger})
	if err := serve(ctx, c, o, log); err != nil {
		log.Error("stopped with an error", zap.Error(err))
		return fmt.Errorf("%w: %w", ErrLogged, err)
	}

	return nil
}

func serve(ctx context.Context, c *config.Config, o ServeOptions, log *Log) error {
	if o.Embedded {
		s, err := embedded.Start(ctx)
		if err != nil {
			return fmt.Errorf("start a redis: %w", err)
		}

		defer s.Close()
		c.Redis = config.Redis{URL: s.URL, Mode: config.Standalone}
		log.Warn("using a temporary Redis for development, its data is lost with this process", zap.String("redis", s.Kind))
	}

	p, err := New(Options{Config: c, Version: o.Version, Revision: cmp.Or(o.Revision, revision()), Logger: log.Logger, Log: log,
		Throwaway: o.Embedded, Hurry: o.Hurry})
	if err != nil {
		return err
	}

	return p.Run(ctx)
}

// revision is the commit that Go itself knows of a build from a git checkout.
func revision() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}

	commit, changed := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			commit = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			changed = "-dirty"
		}
	}

	if commit == "" {
		return ""
	}

	return commit + changed
}
