package fleet

import (
	"context"
	"errors"
	"sync"
	"time"

	"notifier/internal/pace"
)

// subscriber keeps the instance's subscription open. The other instances see the subscription as
// the instance's connection, and send messages to it.
type subscriber struct {
	f *Fleet

	mu sync.Mutex
	// opened numbers the confirmed subscriptions. up is true while the last one counts as alive.
	opened uint64
	up     bool
	// proven is true once a heartbeat has found the subscription at its node.
	proven bool
	// end ends the subscription without waiting. Closing may wait for a dial that hangs, and
	// heartbeats must not wait for that.
	end context.CancelCauseFunc
}

func newSubscriber(f *Fleet) *subscriber { return &subscriber{f: f, end: func(error) {}} }

// Delays between attempts to open the subscription by which this instance receives messages. The first delay is
// minWait, and each further one doubles. The longest is maxWait before the first subscription has worked, because the
// failure may be permanent. Afterwards it is lostWait.
const (
	minWait  = 50 * time.Millisecond
	lostWait = time.Second
	maxWait  = 10 * time.Second
)

var (
	// errOtherNode ends a subscription that a heartbeat did not find at its node.
	errOtherNode = errors.New("the node that stores heartbeats does not have this subscription")
	errRenamed   = errors.New("instance has a new id")
)

// run keeps a subscription open until ctx ends.
func (s *subscriber) run(ctx context.Context) {
	again := pace.Loop{Min: minWait, Max: maxWait, Logger: s.f.o.Logger, Failure: "the fleet subscription ended, opening another"}
	for ctx.Err() == nil {
		err := s.follow(ctx)
		if ctx.Err() != nil {
			return
		}

		if s.down() {
			again.Max = lostWait
			again.Succeed()
		}

		if errors.Is(err, errRenamed) { // logged by rename
			pace.Wait(ctx, again.Next())
			continue
		}

		again.Wait(ctx, err)
	}
}

// down records that the subscription has ended. It reports whether a heartbeat had found it.
func (s *subscriber) down() (proven bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	proven = s.proven
	s.up, s.proven = false, false
	return proven
}

// follow opens a subscription and reads it until it ends.
func (s *subscriber) follow(ctx context.Context) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	s.mu.Lock()
	s.end = end
	s.mu.Unlock()
	sub, err := s.f.o.Redis.Listen(ctx, s.f.ID())
	if err != nil {
		return err
	}

	// Close ends a waiting Next.
	closed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(closed)
		_ = sub.Close()
	})
	defer func() {
		if stop() {
			_ = sub.Close()
			return
		}

		<-closed
	}()
	for {
		h, err := sub.Next(ctx)
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}

		if err != nil {
			return err
		}

		if !h.Subscribed {
			s.f.received(h.Text)
			continue
		}

		s.mu.Lock()
		s.opened++
		s.up = true
		s.mu.Unlock()
		s.f.soon() // the next heartbeat reports that there is a connection
	}
}

// number returns the number of the subscription that is up, or 0.
func (s *subscriber) number() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.up {
		return 0
	}

	return s.opened
}

// check compares the subscription with the connections that a heartbeat found at its node. number
// is the subscription that was up when the heartbeat was sent.
func (s *subscriber) check(number uint64, connections int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if number == 0 || !s.up || number != s.opened {
		return
	}

	switch {
	case connections > 0:
		s.proven = true
	case connections == 0:
		s.up = false
		s.end(errOtherNode)
	}
}

// renew ends the subscription, so that another one is opened under the new id.
func (s *subscriber) renew() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.up = false
	s.end(errRenamed)
}
