package wire

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// The node of a call in a cluster, for callers that skip slow nodes.

// Master is the address of the node that has a key's slot, as far as is known;
// empty outside a cluster.
func (w *Client) Master(ctx context.Context, key string) string {
	if m, ok := w.Holder(ctx, key).(*redis.Client); ok && w.Cluster {
		return m.Options().Addr
	}
	return ""
}

// Holder is the client of the node that has a key's slot, for commands that
// concern the node.
func (w *Client) Holder(ctx context.Context, key string) redis.UniversalClient {
	if c, ok := w.Redis.(*redis.ClusterClient); ok {
		if m, err := c.MasterForKey(ctx, key); err == nil {
			return m
		}
	}
	return w.Redis
}

// ByMaster parts keys by the nodes that have their slots.
func (w *Client) ByMaster(ctx context.Context, ks []string) map[string][]string {
	by := map[string][]string{}
	for _, k := range ks {
		m := w.Master(ctx, k)
		by[m] = append(by[m], k)
	}
	return by
}

// AnyNode returns a client for commands without a key. In a cluster it is the client of a node that
// has a shard and is not slow, if there is one: the cluster's client would send such commands to all
// nodes in turn, slow ones included.
func (w *Client) AnyNode(ctx context.Context) redis.UniversalClient {
	if c, ok := w.Redis.(*redis.ClusterClient); ok {
		for shard := range w.Space.Places() {
			if m, err := c.MasterForKey(ctx, w.Space.Base(shard)); err == nil && !w.Nodes.Slow(m.Options().Addr) {
				return m
			}
		}
	}
	return w.Redis
}

// Reload has the client ask which node of a cluster holds what: by itself it does
// so only when a node that is wrong answers, and a dead one does not.
func (w *Client) Reload(ctx context.Context) {
	if c, ok := w.Redis.(*redis.ClusterClient); ok {
		c.ReloadState(ctx)
	}
}

// Lost is a node of a cluster that is of no use now.
type Lost struct {
	Node   string // its address
	Shards []int  // that lie there
	Err    error
}

// Unreached tries each shard's slot, and says which nodes did not answer for theirs
// before ctx ended, in order of their addresses.
func (w *Client) Unreached(ctx context.Context) []Lost {
	var mu sync.Mutex
	var calls sync.WaitGroup
	by := map[string]*Lost{}
	for shard := range w.Space.Places() {
		calls.Go(func() {
			err := w.Redis.HGet(ctx, w.Space.Layout(shard), "state").Err()
			if err == nil || errors.Is(err, redis.Nil) {
				return
			}
			master := w.Master(ctx, w.Space.Layout(shard))
			mu.Lock()
			defer mu.Unlock()
			if by[master] == nil {
				by[master] = &Lost{Node: master, Err: w.Fail("layout", err)}
			}
			by[master].Shards = append(by[master].Shards, shard)
		})
	}
	calls.Wait()
	return lostList(by)
}

// NodeTimeout is how long a call waits for one node of a cluster where the others'
// answers will do.
const NodeTimeout = time.Second

// EachNode calls f concurrently for each node of a cluster, with those of the keys ks that the node
// holds. It skips nodes that are slow, and nodes in silent, which have already failed to answer. It
// returns the first error. Outside a cluster it calls f once with all keys.
func (w *Client) EachNode(ctx context.Context, ks []string, silent map[string]error, f func(ctx context.Context,
	some []string) error) error {
	if !w.Cluster {
		return f(ctx, ks)
	}
	ctx, cancel := context.WithTimeout(ctx, NodeTimeout)
	defer cancel()
	var mu sync.Mutex
	var first error
	var calls sync.WaitGroup
	for master, some := range w.ByMaster(ctx, ks) {
		if w.Nodes.Slow(master) || silent[master] != nil {
			continue
		}
		calls.Go(func() {
			if err := f(ctx, some); err != nil {
				mu.Lock()
				defer mu.Unlock()
				if first == nil {
					first = err
				}
			}
		})
	}
	calls.Wait()
	return first
}
