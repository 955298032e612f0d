package engine

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"notifier/internal/wire"
)

// watchNodes asks nodes of a cluster that do not answer, and has what failed
// meanwhile made again when one does, or when Sentinel's failover has ended, until
// the function is called that it returns.
func (e *Engine) watchNodes(ctx context.Context) (stop func()) {
	nodes, back := e.o.Conn.Nodes, e.o.Conn.Back()
	if back == nil {
		return func() {}
	}
	e.o.Conn.OnFailover(func(text string) { e.o.Logger.Warn(text) })
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx)) // until the last handler has ended
	var watch sync.WaitGroup
	watch.Go(func() { _ = nodes.Run(ctx) }) // nil, always
	watch.Go(func() {
		var again <-chan time.Time
		var left []time.Duration
		for {
			select {
			case <-ctx.Done():
				return
			case <-back:
				if e.isOpen() {
					e.dispatch.Awake()
					e.listener.Again()
				}
				left = looksAfterBack
			case <-again:
			}
			if e.isOpen() {
				e.sweepers.Now()
			}
			if again = nil; len(left) > 0 {
				again, left = time.After(left[0]), left[1:]
			}
		}
	})
	return func() {
		cancel()
		watch.Wait()
	}
}

// looksAfterBack are the times between looks at all shards after a node has come
// back, besides the first at once. Calls that their callers gave up are carried out
// when it goes on, and what they tell of is heard by nobody whose connections ended
// meanwhile, nor at other nodes to which its own are not made yet: without these looks
// a notice that such a call has made, and that is due, waits for the next idle look.
var looksAfterBack = []time.Duration{100 * time.Millisecond, 900 * time.Millisecond, 4 * time.Second}

// reachTimeout is how long a node may take to say that it is there.
const reachTimeout = 500 * time.Millisecond

// apart says, in words, which nodes of a cluster do not answer, and what waits for
// them.
func (e *Engine) apart(ctx context.Context) (reasons []string) {
	if e.o.Conn.Nodes == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	lost := e.store.Wire().Unreached(ctx)
	for _, l := range lost {
		reasons = append(reasons, fmt.Sprintf("redis node %s: %s; shards %s wait", l.Node, trouble(l.Err), list(l.Shards)))
	}
	for _, addr := range e.o.Conn.Nodes.Away() {
		if !slices.ContainsFunc(lost, func(l wire.Lost) bool { return l.Node == addr }) {
			reasons = append(reasons, fmt.Sprintf("redis node %s does not answer; notices whose timers lie there may be late by the grace", addr))
		}
	}
	return reasons
}

// list is numbers as people read them.
func list(numbers []int) string {
	text := ""
	for i, n := range numbers {
		if i > 0 {
			text += ", "
		}
		text += strconv.Itoa(n)
	}
	return text
}
