package store

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keys"
	"notifier/internal/wire"
)

// Timers calls f with the keys that match a pattern, some at a time, from all
// of Redis. A key that is there all the while is among them.
func (s *Store) Timers(ctx context.Context, masters func(context.Context, func(context.Context, *redis.Client) error) error, pattern string, n int64,
	f func(ctx context.Context, ks []string) error) error {
	scan := func(ctx context.Context, c redis.Cmdable) error {
		cursor := uint64(0)
		for {
			part, cancel := ctx, context.CancelFunc(func() {})
			if masters != nil { // others wait for it
				part, cancel = context.WithTimeout(ctx, wire.NodeTimeout)
			}
			ks, next, err := c.Scan(part, cursor, pattern, n).Result()
			cancel()
			if err != nil {
				return s.w.Fail("scan", err)
			}
			if len(ks) > 0 {
				if err := f(ctx, ks); err != nil {
					return err
				}
			}
			if cursor = next; cursor == 0 {
				return nil
			}
		}
	}
	if masters == nil {
		return scan(ctx, s.c)
	}
	return masters(ctx, func(ctx context.Context, c *redis.Client) error { return scan(ctx, c) })
}

// TouchGroup are timers of one prefix whose notices are for the instance of that id.
type TouchGroup struct {
	For  string
	Keys []string
}

// TouchGroups is Touch, and tells before each group, on the channel of wakes and in
// the same breath, whom its events are for: each subscriber hears that right before
// them. It is not for clusters, where timers lie at other nodes.
func (s *Store) TouchGroups(ctx context.Context, prefix string, list []TouchGroup) (int, error) {
	cmds, err := s.c.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, g := range list {
			p.Publish(ctx, s.space.Wake(), keys.ForText(g.For, len(g.Keys), prefix))
			p.Exists(ctx, g.Keys...)
		}
		return nil
	})
	left := 0
	for i := 1; i < len(cmds); i += 2 {
		n, eerr := cmds[i].(*redis.IntCmd).Result()
		if eerr != nil {
			return 0, s.w.Fail("touch", errors.Join(err, eerr))
		}
		left += int(n) // that a message was refused costs a claim or two
	}
	return left, nil
}

// Touched answers a Touch.
type Touched struct {
	// Left is how many timers are still there: not due yet by Redis's clock.
	Left int
	// Missed is how many of them lie at nodes of a cluster that do not answer.
	// Their events may come late, or not at all.
	Missed int
	asked  int
}

// touchWait is how long a touch waits for a node: who waits for longer than
// the grace has missed what it is for.
const touchWait = 50 * time.Millisecond

// Touch accesses timers, so that Redis expires those that are due on the spot
// and sends their events. In a cluster it waits for no node that is slow.
func (s *Store) Touch(ctx context.Context, ks []string) (Touched, error) {
	if !s.o.Cluster {
		n, err := s.c.Exists(ctx, ks...).Result()
		if err != nil {
			return Touched{}, s.w.Fail("touch", err)
		}
		return Touched{Left: int(n)}, nil
	}
	var all Touched
	answers, asked := make(chan Touched, len(ks)), 0
	for master, some := range s.w.ByMaster(ctx, ks) {
		if s.o.Nodes.Slow(master) {
			all.Missed += len(some)
			continue
		}
		asked += len(some)
		s.timers.calls.Go(func() { answers <- s.touchApart(ctx, some) })
	}
	enough := time.NewTimer(touchWait)
	defer enough.Stop()
	for asked > 0 {
		select {
		case t := <-answers:
			all.Left, all.Missed, asked = all.Left+t.Left, all.Missed+t.Missed, asked-t.asked
		case <-enough.C:
			all.Missed += asked
			return all, nil
		}
	}
	return all, nil
}

// touchApart touches timers that lie at one node of a cluster, also when nobody
// waits for it any more.
func (s *Store) touchApart(ctx context.Context, ks []string) Touched {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timerTimeout)
	defer cancel()
	t := Touched{asked: len(ks)}
	cmds, err := s.c.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, k := range ks {
			p.Exists(ctx, k)
		}
		return nil
	})
	if err != nil {
		_ = s.w.Fail("touch", err)
	}
	for _, c := range cmds {
		n, ok := c.(*redis.IntCmd)
		switch {
		case c.Err() != nil:
			t.Missed++
		case ok:
			t.Left += int(n.Val())
		}
	}
	return t
}
