package listener

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"notifier/internal/retry"
)

// again is after how many checks patterns that were refused are asked for anew.
const again = 6

var errRefused = errors.New("patterns were refused; they are asked for anew")

// followPatterns keeps a subscription to the keyspace events of routes that
// adopt, until ctx ends. What ends it is told where it matters: a Redis that is
// away by the subscription beside this one, a refusal here.
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
		l.o.Logger.Debug("subscription to keyspace events ended; it is made anew", zap.String("redis", c.Options().Addr), zap.Error(err))
		if !loop.Wait(ctx, err) {
			return
		}
	}
}

// subscribePatterns runs one subscription. Each pattern is asked for by itself, so
// that one which is refused does not cost the others.
func (l *Listener) subscribePatterns(ctx context.Context, c *redis.Client, loop *retry.Loop) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ps := c.PSubscribe(ctx)
	defer func() { _ = ps.Close() }()
	heard := &echo{from: time.Now()}
	var wg sync.WaitGroup
	wg.Go(func() { cancel(l.ping(ctx, ps, heard)) })
	wg.Go(func() { // as of the other subscription
		<-ctx.Done()
		_ = ps.Close()
	})
	defer wg.Wait()
	defer cancel(nil)

	asked := slices.Clone(l.patterns)
	for _, p := range asked {
		if err := ps.PSubscribe(ctx, p); err != nil {
			return err
		}
	}
	var denied []string
	for {
		m, err := ps.Receive(ctx)
		heard.now()
		event, isEvent := m.(*redis.Message)
		_, granted := m.(*redis.Subscription)
		switch {
		case err == nil && isEvent:
			l.message(event, &group{})
			continue
		case err == nil && !granted:
			continue // the answer to a PING
		case err != nil && (!refused(err) || len(asked) == 0 || ctx.Err() != nil):
			if cause := context.Cause(ctx); cause != nil {
				return cause
			}
			return err
		case err != nil:
			denied = append(denied, asked[0])
		}
		// Answers come in the order of what was asked.
		if asked = asked[1:]; len(asked) > 0 {
			continue
		}
		loop.Succeed()
		l.adopting(c, denied, true)
		if len(denied) > 0 {
			t := time.AfterFunc(again*l.o.Check, func() { cancel(errRefused) })
			defer t.Stop()
		}
	}
}

// ping looks whether the connection lives, until it does not or ctx ends.
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

// adopting notes what a node sends: its patterns were answered, and of these
// some refused; or its subscription has ended.
func (l *Listener) adopting(c *redis.Client, denied []string, answered bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.adopts()
	l.keyspace[c.Options().Addr] = answered && len(denied) == 0
	all := l.adopts()
	switch {
	case len(denied) > 0 && !l.denied:
		l.denied = true
		l.o.Logger.Warn("keyspace events are refused: plain timers of these routes are looked for each second instead; other routes are as "+
			"punctual as ever",
			zap.Strings("patterns", denied), zap.String("redis", c.Options().Addr),
			zap.String("remedy", grant(c, denied)+"; patterns are compared to the letter"))
	case all:
		l.denied = false
	}
	// Where it was refused before and is again, nothing is new.
	if all || before {
		l.o.State.Adopting(all)
	}
}

// adopts reports whether the events that adoption needs arrive from all nodes. The caller
// holds mu.
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

// tellAdopting reports anew whether the events that adoption needs arrive.
func (l *Listener) tellAdopting() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.o.State.Adopting(l.adopts())
}
