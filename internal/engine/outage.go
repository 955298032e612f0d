package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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
}

// lasting is a duration for people.
func lasting(name string, d time.Duration) zap.Field {
	return zap.String(name, d.Round(100*time.Millisecond).String())
}

func (e *Engine) outage() *outage {
	return &outage{logger: e.o.Logger, every: cmp.Or(e.o.OutageEvery, outageEvery)}
}

// Failed wakes watchOutages.
func (x writes) Failed(op string) {
	e := x.Engine
	e.o.Metrics.RedisError(op)
	select {
	case e.failed <- struct{}{}:
	default:
	}
}

// watchOutages probes Redis after a failed operation until it answers. Without failures it sends
// nothing.
func (e *Engine) watchOutages(ctx context.Context) error {
	o := e.outage()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-e.failed:
		}
		for {
			err := e.ping(ctx)
			if ctx.Err() != nil {
				return nil
			}

			if err == nil {
				o.over()
			} else {
				o.failed(err)
			}

			// Operations may fail although Redis answers: one probe per second is enough.
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(outageProbe):
			}

			if err == nil {
				break
			}
		}
	}
}

// ping probes each master. A user without the permission to PING gets an answer too.
func (e *Engine) ping(ctx context.Context) error {
	one := func(ctx context.Context, c redis.UniversalClient) error {
		if err := wire.Wrap("ping", c.Ping(ctx).Err()); !errors.Is(err, wire.ErrRights) {
			return err
		}
		return nil
	}
	if e.o.Conn.Masters == nil {
		return one(ctx, e.o.Conn.UniversalClient)
	}

	var well atomic.Int32
	err := e.o.Conn.Masters(ctx, func(ctx context.Context, c *redis.Client) error {
		if err := one(ctx, c); err != nil {
			return fmt.Errorf("%s: %w", c.Options().Addr, err)
		}

		well.Add(1)
		return nil
	})
	if err != nil && well.Load() > 0 {
		return fmt.Errorf("%w: %w", errPart, err)
	}

	return err
}
