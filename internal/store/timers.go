package store

import (
	"context"
	_ "embed"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keys"
	"notifier/internal/pace"
	"notifier/internal/wire"
)

//go:embed lua/retime.lua
var retimeSource string

var retimeText = WithParts(retimeSource)

// Timers sets and touches the timers of notices. A timer is a Redis key that expires when its notice is due, so that
// Redis sends an event. Redis may delete an expired key late, unless a client accesses the key. So instances touch a
// timer when it is due: they access the key, and Redis sends the event at once. If a timer is lost, its notice is
// claimed by a sweep, one grace (50 ms by default) late.
type Timers struct {
	w       *wire.Client
	cluster bool
	slow    *wire.Nodes
	adopts  func(prefix string) bool // nil = no route adopts
	foreign func(prefix string, n int)

	calls sync.WaitGroup // calls that may outlive their callers
	nodes *pace.Batchers[string, timer]
}

func newTimers(w *wire.Client, o *Options) *Timers {
	t := &Timers{w: w, cluster: o.Cluster, slow: o.Nodes, adopts: o.Adopts, foreign: o.foreign}
	t.nodes = pace.NewBatchers[string](pace.BatcherOptions{MaxSenders: 1, MinExtra: 1, MaxBatch: timerBatch},
		func(list []timer) { t.setAll(context.Background(), list) })
	return t
}

// Mode returns the scripts' argument for the timers of a route: "0" in a cluster, where a second command sets timers, "2"
// if the route adopts producers' timers, else "1". See lua/lib/timer.lua.
func (s *Timers) Mode(prefix string) string {
	switch {
	case s.cluster:
		return "0"
	case s.adopted(prefix):
		return "2"
	}
	return "1"
}

func (s *Timers) adopted(prefix string) bool { return s.adopts != nil && s.adopts(prefix) }

// timer is an operation on the timer of one notice.
type timer struct {
	key     string
	due     int64 // Unix ms; 0 = delete the timer
	attempt int
	was     string // the notice's score before the change; empty or "-" = it was not pending
	anew    bool   // a timer that is moved gets the value 1, because the notice was replaced
	prefix  string // of the route
}

const (
	// timerTimeout is the timeout of one call that sets or touches timers of one node.
	timerTimeout = 3 * time.Second
	// maxTimers is the maximum number of timers that wait for one node. timerBatch is the maximum
	// number in one call.
	maxTimers  = 16384
	timerBatch = 512
)

// Flush waits until all timers are set and no touch is running. No call that sets or touches timers may
// be made at the same time.
func (s *Timers) Flush() {
	s.nodes.Wait()
	s.calls.Wait()
}

// NewTimer is the timer of a notice's next attempt.
type NewTimer struct {
	Key     string
	Due     int64 // Unix ms
	Attempt int
}

// Set sets, in a cluster, the timers of notices that a script has created under a prefix.
func (s *Timers) Set(ctx context.Context, prefix string, list []NewTimer, now time.Time) {
	if !s.cluster {
		return
	}

	all := make([]timer, len(list))
	for i, t := range list {
		all[i] = timer{key: t.Key, due: t.Due, attempt: t.Attempt}
	}

	s.arm(ctx, prefix, all, now)
}

// arm sets timers in a cluster, by commands to their nodes. It waits for the replies only on a route with adoption,
// at most for wire.MaxSilence.
func (s *Timers) arm(ctx context.Context, prefix string, list []timer, now time.Time) {
	// Outside a cluster, the scripts that write notices also set their timers. In a cluster, a timer may be on another
	// node. It is set after the notice was written, and no caller waits for that, because that node may hang.
	kept := list[:0]
	for _, t := range list {
		if t.prefix = prefix; t.due <= now.UnixMilli() {
			t.due = 0 // a notice that is due now has no timer
		}

		if t.due != 0 || timedScore(t.was) {
			kept = append(kept, t)
		}
	}

	if len(kept) == 0 {
		return
	}

	// A late command could overwrite a timer that the producer has set after its call returned.
	if s.adopted(prefix) {
		s.armNow(ctx, kept)
		return
	}

	for _, t := range kept {
		master := s.w.Master(ctx, t.key)
		b := s.nodes.For(master)
		if s.slow.Slow(master) || b.Len() >= maxTimers {
			_ = s.w.Fail("arm", wire.ErrAway)
			continue
		}

		b.Add(t)
	}
}

// armNow sets timers, and waits for them up to wire.MaxSilence.
func (s *Timers) armNow(ctx context.Context, list []timer) {
	done := make(chan struct{})
	s.calls.Go(func() {
		defer close(done)
		s.setAll(context.WithoutCancel(ctx), list)
	})

	enough := time.NewTimer(wire.MaxSilence)
	defer enough.Stop()
	select {
	case <-done:
	case <-enough.C:
	}
}

// setAll sets or deletes timers. A key that exists is left to retime.lua.
func (s *Timers) setAll(ctx context.Context, list []timer) {
	ctx, cancel := context.WithTimeout(ctx, timerTimeout)
	defer cancel()
	set := make([]*redis.Cmd, len(list))
	_, err := s.w.Redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, t := range list {
			if t.due != 0 {
				w := wire.NewWrite(ctx, 1, "set", t.key, t.attempt, "nx", "pxat", t.due-1)
				set[i] = w.Cmd
				_ = p.Process(ctx, w)
			}
		}
		return nil
	})
	if err != nil && !errors.Is(err, redis.Nil) { // nil: the key exists
		_ = s.w.Fail("arm", err)
	}

	var left []timer
	for i, t := range list {
		if set[i] == nil || errors.Is(set[i].Err(), redis.Nil) {
			left = append(left, t)
		}
	}

	if len(left) > 0 {
		s.retime(ctx, left)
	}
}

// retime moves or deletes the timers that exist, if they are the service's.
func (s *Timers) retime(ctx context.Context, list []timer) {
	cmds, err := s.w.Redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, t := range list {
			mode, anew := "1", "0"
			if s.adopted(t.prefix) {
				mode = "2"
			}

			if t.anew {
				anew = "1"
			}

			wire.Eval(ctx, p, retimeText, []string{t.key}, mode, t.was, t.due, t.attempt, anew)
		}
		return nil
	})
	if err != nil {
		_ = s.w.Fail("arm", err)
	}

	for i, c := range cmds {
		if n, ok := c.(*redis.Cmd).Val().(int64); ok && n > 0 {
			s.foreign(list[i].prefix, int(n))
		}
	}
}

// Disarm puts a command into a pipeline that deletes, in a cluster, the timer of a notice that has or had this score.
func Disarm(ctx context.Context, p redis.Pipeliner, key, score string) {
	wire.Eval(ctx, p, retimeText, []string{key}, "2", score, 0, 0, "0")
}

// TouchGroup is a group of timers of one prefix, whose events are for one instance.
type TouchGroup struct {
	For  string // the id of the instance
	Keys []string
}

// TouchGroups accesses timers of one key prefix, so that Redis expires the due ones at once and sends their events to
// all instances. Before the events of a group, it announces which instance is to claim the group's notices. left is the
// number of timers that are not due yet by Redis's clock. TouchGroups must not be used in a cluster.
func (s *Timers) TouchGroups(ctx context.Context, prefix string, list []TouchGroup) (left int, err error) {
	cmds, err := s.w.Redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		// All instances get the events, but one of them is to claim the group together. In a cluster, messages and
		// events of different nodes have no common order.
		for _, g := range list {
			p.Publish(ctx, s.w.Space.Wake(), keys.ForText(g.For, len(g.Keys), prefix))
			p.Exists(ctx, g.Keys...)
		}
		return nil
	})

	// An error of a PUBLISH is ignored: it only causes a useless claim or two.
	for i := 1; i < len(cmds); i += 2 {
		n, failed := cmds[i].(*redis.IntCmd).Result()
		if failed != nil {
			return 0, s.w.Fail("touch", errors.Join(err, failed))
		}

		left += int(n)
	}

	return left, nil
}

// Touched is the result of Touch.
type Touched struct {
	// Left is the number of timers that are not due yet by Redis's clock.
	Left int
	// Missed is the number of timers on unreachable nodes of a cluster. Their events may come late or
	// not at all.
	Missed int
	asked  int
}

// touchWait is how long Touch waits for a node. After the grace a touch has no use.
const touchWait = 50 * time.Millisecond

// Touch accesses timers, so that Redis expires the due ones now and sends their events. In a cluster it
// does not wait for slow nodes.
func (s *Timers) Touch(ctx context.Context, ks []string) (Touched, error) {
	if s.cluster {
		return s.touchNodes(ctx, ks), nil
	}

	n, err := s.w.Redis.Exists(ctx, ks...).Result()
	if err != nil {
		return Touched{}, s.w.Fail("touch", err)
	}

	return Touched{Left: int(n)}, nil
}

// touchNodes touches timers on all nodes at once, and waits at most touchWait.
func (s *Timers) touchNodes(ctx context.Context, ks []string) (all Touched) {
	answers, asked := make(chan Touched, len(ks)), 0
	for master, some := range s.w.ByMaster(ctx, ks) {
		if s.slow.Slow(master) {
			all.Missed += len(some)
			continue
		}

		asked += len(some)
		s.calls.Go(func() { answers <- s.touchNode(ctx, some) })
	}

	enough := time.NewTimer(touchWait)
	defer enough.Stop()
	for asked > 0 {
		select {
		case t := <-answers:
			all.Left, all.Missed, asked = all.Left+t.Left, all.Missed+t.Missed, asked-t.asked
		case <-enough.C:
			all.Missed += asked
			return all
		}
	}

	return all
}

// touchNode touches timers of one node of a cluster, even after its caller has stopped waiting.
func (s *Timers) touchNode(ctx context.Context, ks []string) Touched {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timerTimeout)
	defer cancel()
	t := Touched{asked: len(ks)}
	cmds, err := s.w.Redis.Pipelined(ctx, func(p redis.Pipeliner) error {
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
