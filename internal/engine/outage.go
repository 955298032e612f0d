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

// How often an outage of Redis is told while it lasts, and how often Redis is
// asked meanwhile.
const (
	outageEvery = time.Minute
	outageProbe = time.Second
)

// outage is one stretch of time in which Redis is of no use. It is told at once,
// when its cause changes, again and again while it lasts, and when it is over.
type outage struct {
	logger *zap.Logger
	every  time.Duration

	began, told time.Time
	cause       string
}

// errPart is what an error wraps that is of some nodes of a cluster, not of all.
var errPart = errors.New("a part of the cluster")

// failed takes an attempt that failed.
func (o *outage) failed(err error) {
	what, then := "Redis", "nothing is delivered and calls are refused"
	if errors.Is(err, errPart) {
		what, then = "A node of the cluster", "what lies there waits and calls for it are refused"
	}
	now, cause := time.Now(), trouble(err)
	switch {
	case o.began.IsZero():
		o.began = now
		o.logger.Error(what+" does not answer as it must: "+then+" until it does", zap.String("cause", cause), zap.Error(err))
	case cause != o.cause || now.Sub(o.told) >= o.every:
		o.logger.Error(what+" still does not answer as it must: "+then,
			zap.String("cause", cause), lasting("for", now.Sub(o.began)), zap.Error(err))
	default:
		return
	}
	o.told, o.cause = now, cause
}

// over takes an attempt that succeeded. It is told at the level of warnings, so
// that a log which has the outage has its end too.
func (o *outage) over() {
	if o.began.IsZero() {
		return
	}
	o.logger.Warn("Redis answers again", lasting("after", time.Since(o.began)))
	o.began = time.Time{}
}

// lasting is a time as people read it.
func lasting(name string, d time.Duration) zap.Field {
	return zap.String(name, d.Round(100*time.Millisecond).String())
}

func (e *Engine) outage() *outage {
	return &outage{logger: e.o.Logger, every: cmp.Or(e.o.OutageEvery, outageEvery)}
}

// failing hears of each operation of the store that failed.
func (e *Engine) failing(op string) {
	e.o.Metrics.RedisError(op)
	select {
	case e.failed <- struct{}{}:
	default:
	}
}

// watchOutages asks Redis itself when an operation has failed, until it
// answers. It sends nothing while all goes well.
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
			// Operations may fail while Redis answers: one question a second is enough.
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

// ping asks each master. A user who may not PING has an answer too.
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
