package store

import (
	"context"
	"errors"
	"sync"

	"github.com/redis/go-redis/v9"
)

// Which node of a cluster a call goes to, for whoever need not wait for one that
// is slow.

// master is the address of the node that has a key's slot, as far as is known;
// empty outside a cluster.
func (s *Store) master(ctx context.Context, key string) string {
	if m, ok := s.holder(ctx, key).(*redis.Client); ok && s.o.Cluster {
		return m.Options().Addr
	}
	return ""
}

// Master is the address of the node of a cluster that has a key, as far as is known;
// empty outside one.
func (s *Store) Master(ctx context.Context, key string) string { return s.master(ctx, key) }

// holder is the client of the node that has a key's slot, for commands that
// concern the node.
func (s *Store) holder(ctx context.Context, key string) redis.UniversalClient {
	if c, ok := s.c.(*redis.ClusterClient); ok {
		if m, err := c.MasterForKey(ctx, key); err == nil {
			return m
		}
	}
	return s.c
}

// byMaster parts keys by the nodes that have their slots.
func (s *Store) byMaster(ctx context.Context, ks []string) map[string][]string {
	by := map[string][]string{}
	for _, k := range ks {
		m := s.master(ctx, k)
		by[m] = append(by[m], k)
	}
	return by
}

// anyNode is where a command goes that concerns no key: to a node that has a
// shard and is not slow, if there is one. The client of a cluster would take them
// in turn.
func (s *Store) anyNode(ctx context.Context) redis.UniversalClient {
	if c, ok := s.c.(*redis.ClusterClient); ok {
		for shard := range s.space.Places() {
			if m, err := c.MasterForKey(ctx, s.space.Base(shard)); err == nil && !s.o.Nodes.Slow(m.Options().Addr) {
				return m
			}
		}
	}
	return s.c
}

// reload has the client ask which node of a cluster holds what: by itself it does
// so only when a node that is wrong answers, and a dead one does not.
func (s *Store) reload(ctx context.Context) {
	if c, ok := s.c.(*redis.ClusterClient); ok {
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
func (s *Store) Unreached(ctx context.Context) []Lost {
	var mu sync.Mutex
	var calls sync.WaitGroup
	by := map[string]*Lost{}
	for shard := range s.space.Places() {
		calls.Go(func() {
			err := s.c.HGet(ctx, s.space.Layout(shard), "state").Err()
			if err == nil || errors.Is(err, redis.Nil) {
				return
			}
			master := s.master(ctx, s.space.Layout(shard))
			mu.Lock()
			defer mu.Unlock()
			if by[master] == nil {
				by[master] = &Lost{Node: master, Err: s.fail("layout", err)}
			}
			by[master].Shards = append(by[master].Shards, shard)
		})
	}
	calls.Wait()
	return lostList(by)
}
