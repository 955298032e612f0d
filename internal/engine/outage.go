package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"notifier/internal/wire"
)

// How often a lasting Redis outage is logged, and how often Redis is probed during it.
const (
	outageEvery = time.Minute
	outageProbe = time.Second
)

// outage is a time in which Redis is not usable. It is logged at the start, when its cause changes,
// at intervals, and at the end.
type outage struct {
	logger *zap.Logger
	alarms *alarms
	every  time.Duration

	began, logged time.Time
	cause         string
}

// errPart is wrapped by errors that concern only some nodes of a cluster.
var errPart = errors.New("a part of the cluster")

// failed records a failed probe.
func (o *outage) failed(err error) {
	now, cause := time.Now(), trouble(err)
	begins, part := o.began.IsZero(), errors.Is(err, errPart)
	if begins {
		o.began = now
	} else if cause == o.cause && now.Sub(o.logged) < o.every {
		return
	}

	o.logged, o.cause = now, cause
	o.alarms.failed(o.began, cause)
	fields := []zap.Field{zap.String("cause", cause), zap.Error(err)}
	if !begins {
		fields = append(fields, lasting("for", now.Sub(o.began)))
	}

	switch {
	case begins && part:
		o.logger.Error("a node of the cluster is unavailable: its notices wait and calls for them are refused, retrying", fields...)
	case begins:
		o.logger.Error("Redis is unavailable: nothing is delivered and calls are refused, retrying", fields...)
	case part:
		o.logger.Error("a node of the cluster is still unavailable: its notices wait and calls for them are refused", fields...)
	default:
		o.logger.Error("Redis is still unavailable: nothing is delivered and calls are refused", fields...)
	}
}

// over records a successful probe. The end is logged as a warning, so that a log with the start of
// the outage also has its end.
func (o *outage) over() {
	if o.began.IsZero() {
		return
	}

	o.logger.Warn("Redis is available again", lasting("after", time.Since(o.began)))
	o.began = time.Time{}
	o.alarms.over()
}

// trouble returns the reason why Redis is not usable, in a few words. Each kind of refusal has its
// own remedy.
func trouble(err error) string {
	for _, kind := range []error{wire.ErrLogin, wire.ErrRights, wire.ErrFull, wire.ErrMoved} {
		if errors.Is(err, kind) {
			return kind.Error()
		}
	}

	if errors.Is(err, wire.ErrFailover) {
		return "sentinels are replacing the master, waiting for the new one"
	}

	var clock wire.ClockError
	if errors.As(err, &clock) {
		return clock.Error()
	}

	var refused *wire.ConnectError
	if errors.As(err, &refused) {
		return refused.Error()
	}

	var malformed *wire.MalformedError
	if errors.As(err, &malformed) || errors.Is(err, wire.ErrReply) {
		return "redis sends unexpected replies: check that NOTIFIER_REDIS_URL is the address of a Redis"
	}

	var answer redis.Error
	if errors.As(err, &answer) {
		return "redis refuses commands: " + answer.Error()
	}

	return "redis does not answer"
}

// lasting is a duration for people.
func lasting(name string, d time.Duration) zap.Field {
	return zap.String(name, d.Round(100*time.Millisecond).String())
}

func (e *Engine) outage() *outage {
	return &outage{logger: e.o.Logger, alarms: e.alarms, every: cmp.Or(e.o.OutageEvery, outageEvery)}
}

// Failed wakes watchOutages.
func (x writes) Failed(op string, err error) {
	e := x.Engine
	e.o.Metrics.RedisError(op)
	if errors.Is(err, wire.ErrFull) {
		e.full.refused("", err)
	}

	wake(e.failed)
}

// watchOutages probes Redis after a failed operation until it answers and is no longer full. Without failures it sends
// nothing.
func (e *Engine) watchOutages(ctx context.Context) error {
	o, limit := e.outage(), 0
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-e.failed:
		}
		for {
			err := e.probe(ctx)
			if ctx.Err() != nil {
				return nil
			}

			if err == nil {
				o.over()
				e.checkData() // another Redis may answer
				limit = e.reportLimit(ctx, limit)
			} else {
				o.failed(err)
			}

			// Operations may fail although Redis answers: one probe per second is enough.
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(outageProbe):
			}

			if !e.full.check() && err == nil {
				break
			}
		}
	}
}

// reportLimit logs the size of batches that do not get through, unless it is the one logged last, and returns it.
func (e *Engine) reportLimit(ctx context.Context, last int) int {
	n := e.store.Wire().Limited()
	if n > 0 && n != last {
		e.o.Logger.Error("large replies or requests do not get through, working with smaller ones", zap.Int("bytes", n),
			zap.String("limit", wire.BufferLimits(ctx, e.store.Wire().AnyNode(ctx))),
			zap.String("remedy", "client-output-buffer-limit normal 0 0 0 and a higher maxmemory-clients in redis.conf, or a faster connection"))
	}

	return n
}

// batchProblem says that large replies or requests do not get through; empty if they do.
func (e *Engine) batchProblem() string {
	if n := e.store.Wire().Limited(); n > 0 {
		return "Redis replies or requests of " + strconv.Itoa(n>>10) + " KiB do not get through: " +
			"working with smaller ones; the log names the limit"
	}

	return ""
}

// probe reports whether each master answers and accepts writes. It records a master that is full.
func (e *Engine) probe(ctx context.Context) error {
	one := func(ctx context.Context, c redis.Cmdable, node string) error {
		err := wire.Probe(ctx, c)
		if errors.Is(err, wire.ErrFull) {
			e.full.refused(node, err)
			return nil // what Redis holds is delivered
		}

		return err
	}
	if e.o.Conn.Masters == nil {
		return one(ctx, e.o.Conn, "")
	}

	var well atomic.Int32
	err := e.o.Conn.Masters(ctx, func(ctx context.Context, c redis.Cmdable) error {
		if err := one(ctx, c, wire.Addr(c)); err != nil {
			return fmt.Errorf("%s: %w", wire.Addr(c), err)
		}

		well.Add(1)
		return nil
	})
	if err != nil && well.Load() > 0 {
		return fmt.Errorf("%w: %w", errPart, err)
	}

	return err
}
