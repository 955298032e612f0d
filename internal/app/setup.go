package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"notifier/internal/config"
	"notifier/internal/doctor"
	"notifier/internal/metrics"
	"notifier/internal/wire"
)

// How often the setup of Redis is examined: every setupEvery, since it can be
// changed while Redis runs; after setupRetry where Redis did not answer; and no
// sooner than setupRetry after a subscription has begun, if other servers answer
// since then.
const (
	setupEvery = 10 * time.Minute
	setupRetry = 5 * time.Second
)

// setupWatch tells, in the log and as a metric, what doctor calls an error of
// how Redis is set up. It runs beside the work and holds nothing up.
type setupWatch struct {
	redis   redisExaminer
	metrics *metrics.Metrics
	logger  *zap.Logger
	// again is signalled when other servers may answer.
	again        chan struct{}
	every, retry time.Duration

	seen     string // the servers that were examined; "" = not known
	reported map[problem]doctor.Finding
}

// redisExaminer examines how Redis is set up.
type redisExaminer interface {
	Examine(ctx context.Context) ([]doctor.Finding, error)
	// Servers names the servers that answer; empty = not known.
	Servers(ctx context.Context) (string, error)
}

// redisSetup is the setup of the Redis that is configured.
type redisSetup struct {
	config *config.Config
	conn   *wire.Conn
}

// Examine implements redisExaminer.
func (s redisSetup) Examine(ctx context.Context) ([]doctor.Finding, error) {
	return doctor.Setup(ctx, s.config, s.conn)
}

// Servers implements redisExaminer.
func (s redisSetup) Servers(ctx context.Context) (string, error) { return doctor.Servers(ctx, s.conn) }

// Check implements engine.Rights.
func (s redisSetup) Check(ctx context.Context) error {
	err := doctor.Allowed(ctx, s.config, s.conn)
	if errors.Is(err, doctor.ErrRights) {
		err = fmt.Errorf("%w: %w", ErrConfig, err)
	}
	return err
}

// problem is what an error is known by from one examination to the next: the
// message may hold numbers.
type problem struct{ check, node, remedy string }

func newSetupWatch(w setupWatch) *setupWatch {
	w.again, w.reported = make(chan struct{}, 1), map[problem]doctor.Finding{}
	w.every, w.retry = cmp.Or(w.every, setupEvery), cmp.Or(w.retry, setupRetry)
	return &w
}

// Subscribed implements engine.Subscriptions: a subscription has begun: what was set may have gone
// with another server.
func (w *setupWatch) Subscribed() {
	if w == nil {
		return
	}
	select {
	case w.again <- struct{}{}:
	default:
	}
}

// Run examines until ctx ends, and returns nil.
func (w *setupWatch) Run(ctx context.Context) error {
	if w == nil {
		return nil
	}
	for ctx.Err() == nil {
		next := w.every
		if err := w.once(ctx); err != nil && ctx.Err() == nil {
			w.logger.Debug("how Redis is set up could not be looked at; it is repeated", zap.Error(err))
			next = w.retry
		}
		w.wait(ctx, next)
	}
	return nil
}

// wait returns after a time, or earlier when other servers answer.
func (w *setupWatch) wait(ctx context.Context, next time.Duration) {
	end := time.After(next)
	for {
		select {
		case <-ctx.Done():
			return
		case <-end:
			return
		case <-w.again:
		}
		if now, err := w.redis.Servers(ctx); err == nil && now != "" && now == w.seen {
			continue // the same ones: a subscription was lost, and no setting
		}
		select { // subscriptions that come and go bring no examination each
		case <-ctx.Done():
		case <-end:
		case <-time.After(w.retry):
		}
		return
	}
}

// once makes one examination. What is wrong is told once, and again when other servers
// answer.
func (w *setupWatch) once(ctx context.Context) error {
	servers, err := w.redis.Servers(ctx)
	if err != nil {
		return err
	}
	found, err := w.redis.Examine(ctx)
	if err != nil {
		return err
	}
	others := servers != w.seen
	w.seen = servers
	now, wrong := map[problem]doctor.Finding{}, map[string]bool{}
	for _, f := range found {
		k := problem{f.Check, f.Node, f.Remedy}
		now[k] = f
		wrong[f.Check] = wrong[f.Check] || f.Severity == doctor.Error
		if _, before := w.reported[k]; before && !others {
			continue
		}
		w.logger.Warn("Redis is not set up as it must be", zap.String("check", f.Check), zap.String("problem", f.Message),
			zap.String("remedy", f.Remedy), node(f))
	}
	for k, f := range w.reported {
		if _, still := now[k]; !still {
			w.logger.Info("what was wrong with how Redis is set up is right now", zap.String("check", f.Check), zap.String("was", f.Message), node(f))
		}
	}
	w.reported = now
	for _, check := range doctor.SetupChecks {
		w.metrics.Misconfigured(check, wrong[check])
	}
	return nil
}

func node(f doctor.Finding) zap.Field {
	if f.Node == "" {
		return zap.Skip()
	}
	return zap.String("redis", f.Node)
}
