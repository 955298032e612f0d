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

// ErrLogged marks errors of Serve that its log has told already: who collects
// the log must see why the service ended, and may not meet a line in it that is
// no log entry.
var ErrLogged = errors.New("see the log")

// ServeOptions of Serve.
type ServeOptions struct {
	// Version and Revision are those of the program; where Revision is empty,
	// that of the build is taken.
	Version, Revision string
	// Embedded: bring a Redis of its own, for development.
	Embedded bool
	// Hurry ends NOTIFIER_SHUTDOWN_DELAY: see [Options].
	Hurry <-chan struct{}
}

// Serve runs a process until ctx ends.
func Serve(ctx context.Context, c *config.Config, o ServeOptions) error {
	logger, closeLog, err := Logger(c.LogLevel, format(c.LogFormat, os.Stderr), os.Stderr)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	defer closeLog()
	// net/http writes what it cannot return to the standard logger.
	defer zap.RedirectStdLog(logger)()
	redis.SetLogger(redisLog{logger})
	if err := serve(ctx, c, o, logger); err != nil {
		logger.Error("ended", zap.Error(err))
		return fmt.Errorf("%w: %w", ErrLogged, err)
	}
	return nil
}

func serve(ctx context.Context, c *config.Config, o ServeOptions, logger *zap.Logger) error {
	if o.Embedded {
		s, err := embedded.Start(ctx)
		if err != nil {
			return fmt.Errorf("start a redis: %w", err)
		}
		defer s.Close()
		c.Redis = config.Redis{URL: s.URL, Mode: config.Standalone}
		logger.Warn("a Redis for development: nothing outlives this process", zap.String("redis", s.Kind))
	}
	p, err := New(Options{Config: c, Version: o.Version, Revision: cmp.Or(o.Revision, revision()), Logger: logger, Throwaway: o.Embedded,
		Hurry: o.Hurry})
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
