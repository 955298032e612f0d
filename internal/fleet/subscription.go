package fleet

import (
	"context"
	"errors"
	"sync"
	"time"

	"notifier/internal/alarm"
	"notifier/internal/retry"
)

// subscription keeps the subscription by which others know that this instance has a
// connection. Messages come over it too.
type subscription struct {
	f *Fleet

	mu sync.Mutex
	// made numbers the lines that were confirmed; up says that the last one is
	// taken for alive.
	made uint64
	up   bool
	// proven: a sign of life has found the line at its node.
	proven bool
	// end ends the line. It does not wait: closing may, for a dial that hangs,
	// and the signs of life must not wait with it.
	end context.CancelCauseFunc
}

func newSubscription(f *Fleet) *subscription { return &subscription{f: f, end: func(error) {}} }

// Waits between two lines. The longest is for where the subscription is
// forbidden or ends at another node than the signs of life, as behind a proxy;
// one that has worked is missed by others and comes back sooner.
const (
	shortestWait = 50 * time.Millisecond
	missedWait   = time.Second
	longestWait  = 10 * time.Second
)

var (
	// errElsewhere is why a line is made anew that nobody finds at its node.
	errElsewhere = errors.New("the node that keeps the signs of life does not know of this subscription")
	errRenamed   = errors.New("this instance has a new id")
)

// run keeps a line until ctx ends.
func (s *subscription) run(ctx context.Context) {
	again := retry.Loop{Min: shortestWait, Max: longestWait, Logger: s.f.o.Logger, Failure: "the fleet's subscription ended; it is made anew"}
	for ctx.Err() == nil {
		err := s.follow(ctx)
		if ctx.Err() != nil {
			return
		}
		if s.down() {
			again.Max = missedWait
			again.Succeed()
		}
		if errors.Is(err, errRenamed) { // by this instance itself, which has logged it
			alarm.Wait(ctx, again.Next())
			continue
		}
		again.Wait(ctx, err)
	}
}

// down notes that there is no line. It reports whether the one there was had
// been found at its node.
func (s *subscription) down() (proven bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	proven = s.proven
	s.up, s.proven = false, false
	return proven
}

// follow reads one line until it ends.
func (s *subscription) follow(ctx context.Context) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	s.mu.Lock()
	s.end = end
	s.mu.Unlock()
	line, err := s.f.o.Redis.Listen(ctx, s.f.ID())
	if err != nil {
		return err
	}
	// Close is what ends a Next that waits.
	closed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(closed)
		_ = line.Close()
	})
	defer func() {
		if stop() {
			_ = line.Close()
			return
		}
		<-closed
	}()
	for {
		h, err := line.Next(ctx)
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		if err != nil {
			return err
		}
		if !h.Subscribed {
			s.f.heard(h.Text)
			continue
		}
		s.mu.Lock()
		s.made++
		s.up = true
		s.mu.Unlock()
		s.f.soon() // the sign of life is to say that there is a connection
	}
}

// number is that of the line that is up; 0 = none is.
func (s *subscription) number() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.up {
		return 0
	}
	return s.made
}

// check takes what a sign of life found: connections of this instance at its
// node. The line had that number before.
func (s *subscription) check(number uint64, connections int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if number == 0 || !s.up || number != s.made {
		return
	}
	switch {
	case connections > 0:
		s.proven = true
	case connections == 0:
		s.up = false
		s.end(errElsewhere)
	}
}

// renew makes the line anew, for another id.
func (s *subscription) renew() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.up = false
	s.end(errRenamed)
}
