package engine

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"notifier/internal/store"
)

// watchNodes asks nodes of a cluster that do not answer, and has what failed
// meanwhile made again when one does, until the function is called that it returns.
func (e *Engine) watchNodes(ctx context.Context) (stop func()) {
	nodes := e.o.Conn.Nodes
	if nodes == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx)) // until the last handler has ended
	var watch sync.WaitGroup
	watch.Go(func() { _ = nodes.Run(ctx) }) // nil, always
	watch.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-nodes.Back():
			}
			if e.begun.Load() {
				e.dispatch.Awake()
				e.sweepAll()
			}
		}
	})
	return func() {
		cancel()
		watch.Wait()
	}
}

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
	lost := e.store.Unreached(ctx)
	for _, l := range lost {
		reasons = append(reasons, fmt.Sprintf("redis node %s: %s; shards %s wait", l.Node, trouble(l.Err), list(l.Shards)))
	}
	for _, addr := range e.o.Conn.Nodes.Away() {
		if !slices.ContainsFunc(lost, func(l store.Lost) bool { return l.Node == addr }) {
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
