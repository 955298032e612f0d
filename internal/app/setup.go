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
	"notifier/internal/telemetry"
	"notifier/internal/wire"
)

// Intervals between checks of the Redis configuration. It is checked every setupEvery, because operators can change it
// while Redis runs. If Redis does not answer, it is checked again after setupRetry.
const (
	setupEvery = 10 * time.Minute
	setupRetry = 5 * time.Second
)

// setupWatch reports errors of the Redis configuration, as found by doctor, in the log and as a
// metric. It delays nothing.
type setupWatch struct {
	redis   redisExaminer
	metrics *telemetry.Metrics
	logger  *zap.Logger
	// again is signalled when other servers may answer.
	again chan struct{}
	// memory is signalled when Redis has become full, or is no longer.
	memory       chan struct{}
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

// problem identifies an error across examinations: its message may contain changing numbers.
type problem struct{ check, node, remedy string }

func newSetupWatch(w setupWatch) *setupWatch {
	w.again, w.memory, w.reported = make(chan struct{}, 1), make(chan struct{}, 1), map[problem]doctor.Finding{}
	w.every, w.retry = cmp.Or(w.every, setupEvery), cmp.Or(w.retry, setupRetry)
	return &w
}

// Subscribed implements engine.Subscriptions. After a new subscription another server may answer,
// without the settings of the last one.
func (w *setupWatch) Subscribed() {
	if w != nil {
		wake(w.again)
	}
}

// MemoryChanged implements engine.Subscriptions. The finding on memory has changed too.
func (w *setupWatch) MemoryChanged() {
	if w != nil {
		wake(w.memory)
	}
}

// wake ends a wait for c. Several calls before the next wait count as one.
func wake(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
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
			w.logger.Debug("cannot check the Redis configuration, retrying", zap.Error(err))
			next = w.retry
		}

		w.wait(ctx, next)
	}

	return nil
}

// wait returns after a time, or earlier when other servers answer or the memory of Redis has filled up or is free again.
func (w *setupWatch) wait(ctx context.Context, next time.Duration) {
	end := time.After(next)
	for {
		select {
		case <-ctx.Done():
			return
		case <-end:
			return
		case <-w.memory:
			return
		case <-w.again:
		}

		if w.sameServers(ctx) {
			continue // only a subscription was lost
		}

		select { // several subscriptions in a row cause one examination
		case <-ctx.Done():
		case <-end:
		case <-time.After(w.retry):
		}

		return
	}
}

// sameServers reports whether the servers of the last examination answer.
func (w *setupWatch) sameServers(ctx context.Context) bool {
	now, err := w.redis.Servers(ctx)
	return err == nil && now != "" && now == w.seen
}

// once makes one examination. It reports a problem once, and again when other servers answer.
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

		w.logger.Warn("the Redis configuration has a problem", zap.String("check", f.Check), zap.String("problem", f.Message),
			zap.String("remedy", f.Remedy), node(f))
	}

	for k, f := range w.reported {
		if _, still := now[k]; !still {
			w.logger.Info("a problem of the Redis configuration is fixed", zap.String("check", f.Check), zap.String("was", f.Message), node(f))
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
