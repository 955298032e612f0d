package listener

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"notifier/internal/pace"
	"notifier/internal/wire"
)

// refusedChecks is the number of checks after which the listener subscribes to refused patterns again.
const refusedChecks = 6

var errRefused = errors.New("patterns were refused, subscribing to them again")

// followPatterns keeps a subscription to the keyspace events of adopting routes until ctx ends. Its
// errors are logged at level debug, because others already report an unreachable node or a refusal.
func (l *Listener) followPatterns(ctx context.Context, c redis.Cmdable) {
	loop := pace.Loop{Min: 50 * time.Millisecond, Max: time.Second}
	for {
		err := l.subscribePatterns(ctx, c, &loop)
		if ctx.Err() != nil {
			return
		}

		if !errors.Is(err, errRefused) {
			l.adopting(c, nil, false)
		}

		level := zap.DebugLevel
		if bad := new(wire.MalformedError); errors.As(err, &bad) {
			level = zap.ErrorLevel
		}

		l.o.Logger.Log(level, "subscription ended, opening another", zap.String("redis", wire.Addr(c)), zap.Error(err))
		if !loop.Wait(ctx, err) {
			return
		}
	}
}

// subscribePatterns runs one subscription. Each pattern has a separate command, so that a refused
// one does not affect the others. The answers have the order of the patterns.
func (l *Listener) subscribePatterns(ctx context.Context, c redis.Cmdable, loop *pace.Loop) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ps, err := wire.Subscribe(ctx, c)
	if err != nil {
		return err
	}

	defer func() { _ = ps.Close() }()
	for _, p := range l.patterns {
		if err := ps.PSubscribe(ctx, p); err != nil {
			return err
		}
	}

	asked, denied := l.patterns, []string(nil)
	answered := func() {
		if asked = asked[1:]; len(asked) > 0 {
			return
		}

		loop.Succeed()
		l.adopting(c, denied, true)
		if len(denied) > 0 {
			time.AfterFunc(refusedChecks*l.o.Check, func() { cancel(errRefused) })
		}
	}
	return wire.Follow(ctx, ps, l.o.Beat, l.o.Silence, func(m any, err error) error {
		switch m := m.(type) {
		case *redis.Message:
			l.message(m, &group{})
		case *redis.Subscription:
			if len(asked) > 0 {
				answered()
			}
		}

		if err == nil || len(asked) == 0 || !refused(err) {
			return err
		}

		denied = append(denied, asked[0])
		answered()
		return nil
	})
}

// adopting records the state of a node's patterns: answered, with some denied, or ended.
func (l *Listener) adopting(c redis.Cmdable, denied []string, answered bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.adopts()
	l.keyspace[wire.Addr(c)] = answered && len(denied) == 0

	all := l.adopts()
	switch {
	case len(denied) > 0 && !l.denied:
		l.denied = true
		l.o.Logger.Warn("keyspace events are refused, searching for plain timers of these routes every second",
			zap.Strings("patterns", denied), zap.String("redis", wire.Addr(c)),
			zap.String("remedy", grant(c, denied)+"; Redis compares patterns literally"))
	case all:
		l.denied = false
	}

	// A repeated refusal is no change.
	if all || before {
		l.o.State.Adopting(all)
	}
}

// adopts reports whether the events for adoption arrive from all nodes. The caller holds mu.
func (l *Listener) adopts() bool {
	for _, ok := range l.keyspace {
		if !ok {
			return false
		}
	}

	for _, f := range l.flows {
		if f.blind {
			return false
		}
	}

	return true
}

// reportAdopting publishes again whether the events for adoption arrive.
func (l *Listener) reportAdopting() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.o.State.Adopting(l.adopts())
}
