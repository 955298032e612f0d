package store

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keys"
	"notifier/internal/testkit"
	"notifier/internal/wire"
)

// A shard whose slot is half moved delayed the other shards of its round trip. They are answered at
// once, and its batches are sent alone until it takes writes again.
func TestASlotThatIsHalfMovedHoldsUpNoShardBesideIt(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	const slot = 13907 // CLUSTER KEYSLOT 0
	a, b := testkit.StartCluster(t, slot)
	c, err := wire.Open(wire.Address{Mode: "cluster", URL: "redis://" + a.Addr()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	s := New(Options{Client: c.Commander, Space: keys.Space{Namespace: "notifier", Shards: 16}, Cluster: true,
		Prefixes:  []string{prefix},
		Retention: time.Hour, Retain: 1000})
	half := keys.Partition{Prefix: prefix, Shard: 0}
	node := s.Node(ctx, half)
	var beside []keys.Partition // at the same node
	for shard := 1; shard < s.space.Shards; shard++ {
		if p := (keys.Partition{Prefix: prefix, Shard: shard}); s.Node(ctx, p) == node {
			beside = append(beside, p)
		}
	}
	if len(beside) == 0 {
		t.Fatal("no other shard is on the node")
	}
	together := func(name string) (list []Batch) {
		for _, b := range everywhere(s, name) {
			if b.Partition == half || b.Partition == beside[0] {
				list = append(list, b)
			}
		}
		return list
	}
	first := together("first")
	allCreated(t, first, s.ScheduleAll(ctx, first))

	id := func(n *testkit.Redis) string {
		text, err := n.Client().Do(ctx, "cluster", "myid").Text()
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	setSlot := func(n *testkit.Redis, args ...any) {
		t.Helper()
		if err := n.Client().Do(ctx, append([]any{"cluster", "setslot", slot}, args...)...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	host, port, _ := strings.Cut(b.Addr(), ":")
	migrate := func(n int) {
		t.Helper()
		for _, k := range a.Client().ClusterGetKeysInSlot(ctx, slot, n).Val() {
			if err := a.Client().Migrate(ctx, host, port, k, 0, 5*time.Second).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
	setSlot(b, "importing", id(a))
	setSlot(a, "migrating", id(b))
	migrate(1)
	second := together("second")
	got := s.ScheduleAll(ctx, second)
	if !errors.Is(got[0].Err, ErrSendAlone) || !errors.Is(got[0].Err, wire.ErrUnavailable) || !redis.IsTryAgainError(got[0].Err) {
		t.Errorf("the half moved slot's batch: %v", got[0].Err)
	}
	allCreated(t, second[1:], got[1:])
	if n := strings.Count(a.Client().Info(ctx, "errorstats").Val(), "errorstat_TRYAGAIN:count=1\r"); n != 1 {
		t.Errorf("it was retried within the others' call:\n%s", a.Client().Info(ctx, "errorstats").Val())
	}
	if name := s.Node(ctx, half); name == node || s.Node(ctx, beside[0]) != node {
		t.Errorf("it is known by the name %q, its neighbour by %q", name, s.Node(ctx, beside[0]))
	}
	if got := s.ScheduleAll(ctx, second[:1]); !errors.Is(got[0].Err, wire.ErrUnavailable) || errors.Is(got[0].Err, ErrSendAlone) {
		t.Errorf("alone: %v", got[0].Err)
	}
	migrate(100)
	setSlot(b, "node", id(b))
	setSlot(a, "node", id(b))
	allCreated(t, second[:1], s.ScheduleAll(ctx, second[:1]))
	s.aloneShards.mu.Lock()
	s.aloneShards.until[half.Shard] = time.Now() // it was kept apart for so long
	s.aloneShards.mu.Unlock()
	if name := s.Node(ctx, half); strings.Contains(name, "shard") || s.aloneShards.some.Load() {
		t.Errorf("it is still known by the name %q", name)
	}
}
