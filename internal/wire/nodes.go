package wire

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Subscribe opens a separate connection, and subscribes to channels. The caller closes it. The channels
// of a cluster's client must share a slot: it selects the node.
//
//go:noinline
func Subscribe(ctx context.Context, c redis.Cmdable, channels ...string) (Subscription, error) {
	if conn, ok := c.(*Conn); ok {
		c = conn.Commander
	}

	switch c := c.(type) {
	case *redis.ClusterClient:
		return c.Subscribe(ctx, channels...), nil
	case *redis.Client:
		return c.Subscribe(ctx, channels...), nil
	}

	return nil, fmt.Errorf("a %T cannot subscribe", c)
}

// Addr returns the address of a server; empty if c is the client of a cluster.
//
//go:noinline
func Addr(c redis.Cmdable) string {
	if one, ok := c.(*redis.Client); ok {
		return one.Options().Addr
	}
	return ""
}

// User returns the name under which a client of one server logs in; empty if it has none.
//
//go:noinline
func User(c redis.Cmdable) string {
	if one, ok := c.(*redis.Client); ok {
		return one.Options().Username
	}
	return ""
}

// Masters returns the function that calls f for each master of a cluster; nil if c is no client of a
// cluster.
//
//go:noinline
func Masters(c redis.Cmdable) func(ctx context.Context, f func(ctx context.Context, c redis.Cmdable) error) error {
	if cluster := clusterOf(c); cluster != nil {
		return masters(cluster)
	}
	return nil
}

func masters(c *redis.ClusterClient) func(ctx context.Context, f func(ctx context.Context, c redis.Cmdable) error) error {
	return func(ctx context.Context, f func(ctx context.Context, c redis.Cmdable) error) error {
		return c.ForEachMaster(ctx, func(ctx context.Context, one *redis.Client) error { return f(ctx, one) })
	}
}

// clusterOf returns c, or the client in a Conn, if it is a cluster's; else nil.
func clusterOf(c redis.Cmdable) *redis.ClusterClient {
	if conn, ok := c.(*Conn); ok {
		c = conn.Commander
	}

	cluster, _ := c.(*redis.ClusterClient)
	return cluster
}

// The node of a call in a cluster, for callers that skip slow nodes.

// Master returns the address of the node that has a key's slot, as far as this process knows. It is
// empty outside a cluster.
func (w *Client) Master(ctx context.Context, key string) string {
	if !w.Cluster {
		return ""
	}
	return Addr(w.Holder(ctx, key))
}

// Holder returns a client of the node that has a key's slot, for commands about that node.
// While that node is unknown, it returns the cluster's client.
func (w *Client) Holder(ctx context.Context, key string) Commander {
	if m, err := w.HolderOf(ctx, key); err == nil {
		return m
	}
	return w.Redis
}

// HolderOf is Holder, but returns an error while the node is unknown.
//
//go:noinline
func (w *Client) HolderOf(ctx context.Context, key string) (Commander, error) {
	cluster := clusterOf(w.Redis)
	if cluster == nil {
		return w.Redis, nil
	}

	m, err := cluster.MasterForKey(ctx, key)
	if err != nil {
		return nil, err
	}

	return m, nil
}

// ByMaster groups keys by the address of the node that has their slot.
func (w *Client) ByMaster(ctx context.Context, ks []string) map[string][]string {
	by := map[string][]string{}
	for _, k := range ks {
		m := w.Master(ctx, k)
		by[m] = append(by[m], k)
	}

	return by
}

// AnyNode returns a client for commands that concern no key, such as INFO. In a cluster it is the client of the first
// node that has a shard and is not slow.
func (w *Client) AnyNode(ctx context.Context) Commander {
	// The cluster's own client would try all nodes in turn, including hanging ones.
	if c := clusterOf(w.Redis); c != nil {
		for shard := range w.Space.Places() {
			if m, err := c.MasterForKey(ctx, w.Space.Base(shard)); err == nil && !w.Nodes.Slow(m.Options().Addr) {
				return m
			}
		}
	}
	return w.Redis
}

// Reload makes the client of a cluster read again which node has which slots. By itself the client
// does so only after a redirection, which a dead node does not send.
func (w *Client) Reload(ctx context.Context) { reload(ctx, w.Redis) }

// Lost is a node of a cluster that does not answer.
type Lost struct {
	Node   string // its address
	Shards []int  // that it stores
	Err    error
}

// Unreached reads a key of each shard, and returns the nodes that did not answer before ctx ended,
// sorted by their addresses.
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

// NodeTimeout is the timeout for one node of a cluster in calls for which the answers of the others
// are enough.
const NodeTimeout = time.Second

// EachNode calls f concurrently, once for each cluster node that stores some of the keys ks, with the keys of that
// node. Nodes that are known to be slow, or that silent lists by address, are skipped without an error. In a cluster,
// the context of f ends after [NodeTimeout]. EachNode waits for all calls and returns the first error. Outside a
// cluster, it calls f once, with all keys.
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
