package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/testkit"
	"notifier/internal/wire"
)

// trips counts the round trips that scripts take.
type trips struct{ n atomic.Int32 }

func (c *trips) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *trips) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "evalsha" || cmd.Name() == "eval" {
			c.n.Add(1)
		}
		return next(ctx, cmd)
	}
}

func (c *trips) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		c.n.Add(1)
		return next(ctx, cmds)
	}
}

// everywhere is two notices for each of a Store's shards.
func everywhere(s *Store, name string) []Batch {
	list := make([]Batch, s.space.Shards)
	for i := range list {
		list[i].Partition = keys.Partition{Prefix: prefix, Shard: i}
		for n := range 2 {
			list[i].Requests = append(list[i].Requests, &Request{Key: fmt.Sprintf("app1:a:b:%s-%d-%d", name, i, n), Delay: time.Hour})
		}
	}
	return list
}

// allCreated checks that every request of each batch has its own notice.
func allCreated(t *testing.T, batches []Batch, got []Batched) {
	t.Helper()
	for i, g := range got {
		if g.Err != nil || len(g.Replies) != len(batches[i].Requests) {
			t.Fatalf("batch %d: %d replies, %v", i, len(g.Replies), g.Err)
		}
		for j, r := range g.Replies {
			if r.Err != nil || !r.Created || r.Key != batches[i].Requests[j].Key {
				t.Fatalf("batch %d, request %d: %+v", i, j, r)
			}
		}
	}
}

// Batches for shards of one node share a round trip, and each has its own result.
func TestShardsOfOneNodeShareARoundTrip(t *testing.T) {
	t.Parallel()
	srv := testkit.SharedRedis(t)
	s := with(t, srv, 64, prefix)
	var count trips
	s.c.AddHook(&count)
	ctx := t.Context()
	first := everywhere(s, "first")
	allCreated(t, first, s.ScheduleAll(ctx, first)) // learns the layout of each shard, and loads the script
	count.n.Store(0)
	second := everywhere(s, "second")
	allCreated(t, second, s.ScheduleAll(ctx, second))
	if n := count.n.Load(); n != 1 {
		t.Errorf("%d round trips, want one", n)
	}
	srv.Client().ScriptFlush(ctx)
	third := everywhere(s, "third")
	allCreated(t, third, s.ScheduleAll(ctx, third))
	for shard := range s.space.Shards {
		if n := srv.Client().ZCard(ctx, s.space.Shadow(keys.Partition{Prefix: prefix, Shard: shard})).Val(); n != 6 {
			t.Errorf("shard %d holds %d notices, want 6", shard, n)
		}
	}

	broken := s.space.Shadow(keys.Partition{Prefix: prefix, Shard: 7})
	srv.Client().Del(ctx, broken)
	srv.Client().Set(ctx, broken, "no sorted set", 0)
	fourth := everywhere(s, "fourth")
	got := s.ScheduleAll(ctx, fourth)
	if got[7].Err == nil {
		t.Error("a shard whose shadow is a string took notices")
	}
	fourth, got = append(fourth[:7:7], fourth[8:]...), append(got[:7:7], got[8:]...)
	allCreated(t, fourth, got)
}

// All of them share one wait, and where it ends too early each says so.
func TestShardsOfOneNodeShareAWait(t *testing.T) {
	master, replica := replicated(t)
	one := notice.Durability{Replicas: 1}
	s := confirmingShards(t, wire.Address{URL: master.URL()}, wire.Confirm{Durability: one, Timeout: 20 * time.Second}, 64)
	hasty := confirmingShards(t, wire.Address{URL: master.URL()}, wire.Confirm{Durability: one, Timeout: 50 * time.Millisecond}, 64)
	master.Client().HSet(t.Context(), s.space.Meta(), "layout", Version, "shards", 64)
	first := everywhere(s, "first")
	allCreated(t, first, s.ScheduleAll(t.Context(), first))
	before := calls(t, master, "wait")
	second := everywhere(s, "second")
	allCreated(t, second, s.ScheduleAll(t.Context(), second))
	if n := calls(t, master, "wait") - before; n != 1 {
		t.Errorf("%d waits, want one", n)
	}
	third := everywhere(s, "third")
	_ = hasty.ScheduleAll(t.Context(), everywhere(s, "zeroth")) // knows the layout
	replica.Pause()
	for i, g := range hasty.ScheduleAll(t.Context(), third) {
		for j, r := range g.Replies {
			if !r.Created || !errors.Is(r.Err, wire.ErrUnconfirmed) {
				t.Errorf("batch %d, request %d, without the replica: %+v", i, j, r)
			}
		}
		if g.Err != nil || len(g.Replies) != 2 {
			t.Errorf("batch %d: %d replies, %v", i, len(g.Replies), g.Err)
		}
	}
	replica.Unpause()
	for i, g := range s.ScheduleAll(t.Context(), third) {
		for j, r := range g.Replies {
			if r.Created || r.Err != nil {
				t.Errorf("batch %d, request %d, repeated: %+v", i, j, r)
			}
		}
	}
}

// moveSlot moves a slot from one node to another.
func moveSlot(t *testing.T, slot int, from, to *testkit.Redis) {
	t.Helper()
	ctx := t.Context()
	id := func(n *testkit.Redis) string {
		t.Helper()
		v, err := n.Client().Do(ctx, "cluster", "myid").Text()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	do := func(n *testkit.Redis, args ...any) {
		t.Helper()
		if err := n.Client().Do(ctx, args...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	do(to, "cluster", "setslot", slot, "importing", id(from))
	do(from, "cluster", "setslot", slot, "migrating", id(to))
	host, port, _ := strings.Cut(to.Addr(), ":")
	for _, k := range from.Client().ClusterGetKeysInSlot(ctx, slot, 1000).Val() {
		if err := from.Client().Migrate(ctx, host, port, k, 0, 5*time.Second).Err(); err != nil {
			t.Fatal(err)
		}
	}
	do(to, "cluster", "setslot", slot, "node", id(to))
	do(from, "cluster", "setslot", slot, "node", id(to))
}

// A batch whose slot has moved follows the slot, and the others of the round trip do not.
func TestWhatGoesTogetherFollowsASlotThatMoves(t *testing.T) {
	t.Parallel()
	const slot = 13907 // CLUSTER KEYSLOT 0
	a, b := testkit.StartCluster(t, slot)
	for _, n := range []*testkit.Redis{a, b} {
		for name, v := range map[string]string{"appendonly": "yes", "appendfsync": "always"} {
			if err := n.Client().ConfigSet(t.Context(), name, v).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
	address := wire.Address{Mode: "cluster", URL: "redis://" + a.Addr()}
	stores := map[string]*Store{
		"plain":     confirmingShards(t, address, wire.Confirm{}, 8),
		"confirmed": confirmingShards(t, address, wire.Confirm{Durability: notice.Durability{Fsync: true}, Timeout: 10 * time.Second}, 8),
	}
	for name, s := range stores {
		a.Client().HSet(t.Context(), s.space.Meta(), "layout", Version, "shards", 8)
		b.Client().HSet(t.Context(), s.space.Meta(), "layout", Version, "shards", 8)
		first := everywhere(s, name+"-first")
		allCreated(t, first, s.ScheduleAll(t.Context(), first))
	}
	moveSlot(t, slot, a, b)
	for name, s := range stores {
		second := everywhere(s, name+"-second")
		allCreated(t, second, s.ScheduleAll(t.Context(), second))
		if got := s.Node(t.Context(), partition); got == "" {
			t.Errorf("%s: the node of shard 0 has no name", name)
		}
	}
	if n := b.Client().HLen(t.Context(), "notifier:{0}:records:"+prefix).Val(); n != 8 {
		t.Errorf("the new node has %d records of the shard that moved, want 8", n)
	}
}
