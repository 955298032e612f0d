package wire

import (
	"context"
	"maps"
	"net"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

// Traffic returns the number of round trips to Redis since the start, and the present numbers of used and idle
// connections. A round trip is one command or one pipeline. The map trips has a count for each name of a script or
// command; a pipeline counts under its first one. Connections of subscriptions are not counted. Before the first round
// trip, used and idle are 0. Traffic is safe for concurrent use.
func (c *Conn) Traffic() (trips map[string]uint64, used, idle int) {
	trips = c.trips.all()
	if len(trips) == 0 {
		return trips, 0, 0 // PoolStats of a cluster's client would ask the nodes for their slots
	}

	c.mu.Lock()
	clients := append([]Commander{c.Commander}, c.others...)
	c.mu.Unlock()

	for _, client := range clients {
		s := client.PoolStats()
		used, idle = used+inUse(s.TotalConns, s.IdleConns), idle+int(s.IdleConns)
		if p := s.PipelineStats; p != nil {
			used, idle = used+inUse(p.TotalConns, p.IdleConns), idle+int(p.IdleConns)
		}
	}

	return trips, used, idle
}

// inUse is not negative, though the numbers are not read at the same instant.
func inUse(total, idle uint32) int { return max(0, int(total)-int(idle)) }

// trips counts round trips. It is a hook of go-redis.
type trips struct{ counts copied[*atomic.Uint64] }

func (t *trips) add(cmd redis.Cmder) {
	op := opOf(cmd)
	n, ok := t.counts.get(op)
	if !ok {
		n = t.counts.put(op, new(atomic.Uint64))
	}

	n.Add(1)
}

func (t *trips) all() map[string]uint64 {
	out := map[string]uint64{}
	for op, n := range t.counts.all() {
		out[op] = n.Load()
	}

	return out
}

// DialHook changes nothing.
func (t *trips) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

// ProcessHook counts commands.
func (t *trips) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		t.add(cmd)
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook counts pipelines and transactions.
func (t *trips) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if len(cmds) > 0 {
			t.add(cmds[0])
		}
		return next(ctx, cmds)
	}
}

// opOf names the script that a command runs, or else the command.
func opOf(cmd redis.Cmder) string {
	if args := cmd.Args(); len(args) > 1 {
		if d, ok := args[1].(*digest); ok {
			return d.op
		}
	}
	return cmd.Name()
}

// copied is a map that is read without a lock and copied for each write. The zero value is
// empty.
type copied[V any] struct {
	current atomic.Pointer[map[string]V]
	mu      sync.Mutex // of writes
}

func (c *copied[V]) get(key string) (v V, ok bool) {
	if m := c.current.Load(); m != nil {
		v, ok = (*m)[key]
	}
	return v, ok
}

func (c *copied[V]) all() map[string]V {
	if m := c.current.Load(); m != nil {
		return *m
	}
	return nil
}

// put returns the value that the key has: v, or that of an earlier put.
func (c *copied[V]) put(key string, v V) V {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.all()
	if old, ok := before[key]; ok {
		return old
	}

	next := maps.Clone(before)
	if next == nil {
		next = map[string]V{}
	}

	next[key] = v
	c.current.Store(&next)
	return v
}
