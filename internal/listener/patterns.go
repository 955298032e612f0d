package listener

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"notifier/internal/retry"
)

// refusedChecks is the number of checks after which the listener subscribes to refused patterns again.
const refusedChecks = 6

var errRefused = errors.New("patterns were refused, subscribing to them again")

// followPatterns keeps a subscription to the keyspace events of adopting routes until ctx ends. Its
// errors are logged at level debug, because others already report an unreachable node or a refusal.
func (l *Listener) followPatterns(ctx context.Context, c *redis.Client) {
	loop := retry.Loop{Min: 50 * time.Millisecond, Max: time.Second}
	for {
		err := l.subscribePatterns(ctx, c, &loop)
		if ctx.Err() != nil {
			return
		}

		if !errors.Is(err, errRefused) {
			l.adopting(c, nil, false)
		}

		l.o.Logger.Debug("subscription to keyspace events ended, opening another", zap.String("redis", c.Options().Addr), zap.Error(err))
		if !loop.Wait(ctx, err) {
			return
		}
	}
}

// subscribePatterns runs one subscription. Each pattern has a separate command, so that a refused
// one does not affect the others.
func (l *Listener) subscribePatterns(ctx context.Context, c *redis.Client, loop *retry.Loop) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ps := c.PSubscribe(ctx)
	defer func() { _ = ps.Close() }()
	heard := &echo{from: time.Now()}

	var wg sync.WaitGroup
	wg.Go(func() { cancel(l.ping(ctx, ps, heard)) })
	wg.Go(func() { // Close ends a Receive that waits on a silent connection
		<-ctx.Done()
		_ = ps.Close()
	})
	defer wg.Wait()
	defer cancel(nil)

	for _, p := range l.patterns {
		if err := ps.PSubscribe(ctx, p); err != nil {
			return err
		}
	}

	denied, err := l.answers(ctx, ps, heard)
	if err != nil {
		return causeOr(ctx, err)
	}

	loop.Succeed()
	l.adopting(c, denied, true)
	if len(denied) > 0 {
		t := time.AfterFunc(refusedChecks*l.o.Check, func() { cancel(errRefused) })
		defer t.Stop()
	}

	for {
		if _, err := l.next(ctx, ps, heard); err != nil {
			return causeOr(ctx, err)
		}
	}
}

// answers receives the answer to each PSUBSCRIBE, in the order of the patterns, and returns the denied
// patterns.
func (l *Listener) answers(ctx context.Context, ps *redis.PubSub, heard *echo) (denied []string, err error) {
	for asked := l.patterns; len(asked) > 0; {
		answered, err := l.next(ctx, ps, heard)
		switch {
		case err != nil && (!refused(err) || ctx.Err() != nil):
			return nil, err
		case err != nil:
			denied = append(denied, asked[0])
		case !answered:
			continue
		}

		asked = asked[1:]
	}
	return denied, nil
}

// next receives one message, and handles it if it is an event. It reports whether the message is the
// answer to a PSUBSCRIBE.
func (l *Listener) next(ctx context.Context, ps *redis.PubSub, heard *echo) (answered bool, err error) {
	m, err := ps.Receive(ctx)
	heard.now()
	if err != nil {
		return false, err
	}

	if event, ok := m.(*redis.Message); ok {
		l.message(event, &group{})
	}

	_, answered = m.(*redis.Subscription)
	return answered, nil
}

// ping checks the connection until it fails or ctx ends.
func (l *Listener) ping(ctx context.Context, ps *redis.PubSub, heard *echo) error {
	tick := time.NewTicker(l.o.Beat)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}

		if silence := heard.silence(); silence > l.o.Silence {
			return fmt.Errorf("the subscription to keyspace events has been silent for %s", silence.Round(time.Millisecond))
		}
		if err := ps.Ping(ctx); err != nil && ctx.Err() == nil {
			return fmt.Errorf("ping: %w", err)
		}
	}
}

// adopting records the state of a node's patterns: answered, with some denied, or ended.
func (l *Listener) adopting(c *redis.Client, denied []string, answered bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.adopts()
	l.keyspace[c.Options().Addr] = answered && len(denied) == 0

	all := l.adopts()
	switch {
	case len(denied) > 0 && !l.denied:
		l.denied = true
		l.o.Logger.Warn("keyspace events are refused, searching for plain timers of these routes every second",
			zap.Strings("patterns", denied), zap.String("redis", c.Options().Addr),
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
