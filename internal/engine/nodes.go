package engine

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"go.uber.org/zap"

	"notifier/internal/fleet"
	"notifier/internal/wire"
)

// watchNodes probes unreachable cluster nodes until the returned function is called. When one
// answers again, or a Sentinel failover has ended, failed operations are retried.
func (e *Engine) watchNodes(ctx context.Context) (stop func()) {
	nodes, back := e.o.Conn.Nodes, e.o.Conn.Back()
	if back == nil {
		return func() {}
	}

	e.o.Conn.OnFailover(func(text string) {
		e.o.Logger.Warn("a Sentinel failover has started or ended", zap.String("event", text))
	})
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx)) // until the last handler has ended
	var watch sync.WaitGroup
	watch.Go(func() { _ = nodes.Run(ctx) }) // always nil
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
				left = sweepsAfterReturn
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

// sweepsAfterReturn are the delays between the searches for due notices that follow the return of a cluster node or the
// end of a Sentinel failover. The first search is made at once. The later ones find notices whose messages an instance
// has missed before it was connected to the node again.
var sweepsAfterReturn = []time.Duration{100 * time.Millisecond, 900 * time.Millisecond, 4 * time.Second}

// reachTimeout is the timeout of a node's probe.
const reachTimeout = 500 * time.Millisecond

// unreachable describes the cluster nodes that do not answer and the work that waits for them.
func (e *Engine) unreachable(ctx context.Context) (list []fleet.Condition) {
	if e.o.Conn.Nodes == nil {
		return nil
	}

	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	lost := e.store.Wire().Unreached(ctx)
	for _, l := range lost {
		list = append(list, fleet.Condition{Urgent: true,
			Reason: fmt.Sprintf("redis node %s: %s; shards %s wait", l.Node, trouble(l.Err), numbers(l.Shards))})
	}

	for _, addr := range e.o.Conn.Nodes.Away() {
		if !slices.ContainsFunc(lost, func(l wire.Lost) bool { return l.Node == addr }) {
			list = append(list, fleet.Condition{
				Reason: fmt.Sprintf("redis node %s does not answer; notices with timers on it may be late by the grace", addr)})
		}
	}

	return list
}

// numbers joins numbers for people.
func numbers(all []int) string {
	text := ""
	for i, n := range all {
		if i > 0 {
			text += ", "
		}
		text += strconv.Itoa(n)
	}

	return text
}
