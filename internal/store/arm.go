package store

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/coalesce"
	"notifier/internal/node"
	"notifier/internal/wire"
)

// In a cluster timers lie in slots of their own, at whatever node has them. They
// are set behind the call that wrote their notices, and it waits for none of them:
// a node that hangs would hold up the notices of all others. A timer that could
// not be set makes its notice late by the grace.

type timer struct {
	key     string
	due     int64 // Unix ms
	attempt int
	over    over
}

// over is what a timer may be set over.
type over int

const (
	overAll     over = iota
	overNothing      // what is there is a producer's
	overOwn          // what is there is moved and keeps its value: an adopted timer holds the payload
	remove           // none is set, and what is there is deleted
)

const (
	// timerTimeout bounds one call that sets or touches timers of one node.
	timerTimeout = 3 * time.Second
	// maxTimers is how many may wait for their node, and timerBatch how many one
	// call sets.
	maxTimers  = 16384
	timerBatch = 512
)

// timers are those that wait to be set, by node, each node's in the order of the
// calls they come from.
type timers struct {
	calls sync.WaitGroup // that nobody need wait for
	nodes *coalesce.Group[string, timer]
}

// Flush returns when no timer waits to be set and no touch is under way. Nothing
// may be called meanwhile that sets timers.
func (s *Store) Flush() {
	s.timers.nodes.Wait()
	s.timers.calls.Wait()
}

// arm sets timers in a cluster. Where they are adopted it waits for that, since
// producers set theirs under the same names: what they set after the call must not
// be overwritten by what the call set. It waits for no longer than a node may take
// that is well.
func (s *Store) arm(ctx context.Context, prefix string, list []timer, now time.Time) {
	kept := list[:0]
	for _, t := range list {
		if t.over == remove || t.due > now.UnixMilli() {
			kept = append(kept, t)
		}
	}
	if len(kept) == 0 {
		return
	}
	if s.adopts(prefix) {
		done := make(chan struct{})
		s.timers.calls.Go(func() {
			defer close(done)
			s.setTimers(context.WithoutCancel(ctx), kept)
		})
		enough := time.NewTimer(node.MaxSilence)
		defer enough.Stop()
		select {
		case <-done:
		case <-enough.C:
		}
		return
	}
	for _, t := range kept {
		master := s.w.Master(ctx, t.key)
		b := s.timers.nodes.For(master)
		if s.o.Nodes.Slow(master) || b.Len() >= maxTimers {
			_ = s.w.Fail("arm", node.ErrAway)
			continue
		}
		b.Add(t)
	}
}

func (s *Store) setTimers(ctx context.Context, list []timer) {
	ctx, cancel := context.WithTimeout(ctx, timerTimeout)
	defer cancel()
	_, err := s.c.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, t := range list {
			switch t.over {
			case remove:
				_ = p.Process(ctx, wire.NewWrite(ctx, 1, "del", t.key)) // one left over is a hint too many
			case overOwn:
				_ = p.Process(ctx, wire.NewWrite(ctx, 1, "pexpireat", t.key, t.due-1))
				_ = p.Process(ctx, wire.NewWrite(ctx, 1, "set", t.key, t.attempt, "nx", "pxat", t.due-1))
			case overNothing:
				_ = p.Process(ctx, wire.NewWrite(ctx, 1, "set", t.key, t.attempt, "nx", "pxat", t.due-1))
			case overAll:
				_ = p.Process(ctx, wire.NewWrite(ctx, 1, "set", t.key, t.attempt, "pxat", t.due-1))
			}
		}
		return nil
	})
	if err != nil && !errors.Is(err, redis.Nil) { // nil: something was there
		_ = s.w.Fail("arm", err)
	}
}
