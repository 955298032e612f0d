package app

import (
	"context"
	"fmt"
	"os"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"notifier/internal/config"
	"notifier/internal/embedded"
)

// Serve runs a process until ctx ends. With inMemory it brings a Redis of its
// own, for development.
func Serve(ctx context.Context, c *config.Config, version string, inMemory bool) error {
	logger, closeLog, err := Logger(c.LogLevel, c.LogFormat, os.Stderr)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	defer closeLog()
	// net/http writes what it cannot return to the standard logger.
	defer zap.RedirectStdLog(logger)()
	redis.SetLogger(redisLog{logger})
	if inMemory {
		s, err := embedded.Start(ctx)
		if err != nil {
			return fmt.Errorf("start a redis: %w", err)
		}
		defer s.Close()
		c.Redis = config.Redis{URL: s.URL, Mode: config.Standalone}
		logger.Warn("a Redis for development: nothing outlives this process", zap.String("redis", s.Kind))
	}
	p, err := New(Options{Config: c, Version: version, Logger: logger})
	if err != nil {
		return err
	}
	return p.Run(ctx)
}
