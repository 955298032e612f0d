package store

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/testkit"
	"notifier/internal/wire"
)

// behind is a Store in one of the modes whose way to Redis loses answers. A
// cluster of one node has the slots and the client of a larger one.
func behind(t *testing.T, mode string) (*Store, *testkit.Redis, *lossy) {
	t.Helper()
	p := newLossy(t)
	_, port, _ := strings.Cut(p.addr(), ":")
	var srv *testkit.Redis
	if mode == "cluster" {
		srv = testkit.StartRedis(t, testkit.WithConfig("cluster-enabled yes", "cluster-announce-ip 127.0.0.1", "cluster-announce-port "+port))
		if err := srv.Client().ClusterAddSlotsRange(t.Context(), 0, 16383).Err(); err != nil {
			t.Fatal(err)
		}
		testkit.Await(t, func() error { return srv.Client().Set(t.Context(), "probe", "x", 0).Err() })
	} else {
		srv = testkit.StartRedis(t)
	}
	p.serve(srv.Addr())
	url := "redis://" + p.addr()
	if mode == "sentinel" {
		url = "redis://" + testkit.Sentinel(t, func() string { return port }) + "/0?master_name=m"
	}
	c, err := wire.Open(wire.Address{Mode: mode, URL: url})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	s := New(Options{Client: c.Commander, Space: keys.Space{Namespace: "notifier", Shards: 1}, Cluster: mode == "cluster",
		Retention: time.Hour, Retain: 1000})
	if err := s.w.Detect(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s, srv, p
}

// Sentinels that ask for no password refuse the one of Redis.
func TestTheUserInTheURLIsRedissAlsoBehindSentinels(t *testing.T) {
	srv := testkit.StartRedis(t)
	if err := srv.Client().Do(t.Context(), "ACL", "SETUSER", "shop", "on", ">secret", "~*", "&*", "+@all").Err(); err != nil {
		t.Fatal(err)
	}
	_, port, _ := strings.Cut(srv.Addr(), ":")
	sentinel := testkit.Sentinel(t, func() string { return port })
	for _, url := range []string{
		"redis://shop:secret@" + sentinel + "/0?master_name=m",
		"redis://" + sentinel + "/0?master_name=m&username=shop&password=secret",
	} {
		c, err := wire.Open(wire.Address{Mode: "sentinel", URL: url})
		if err != nil {
			t.Fatal(err)
		}
		who, err := c.Do(t.Context(), "ACL", "WHOAMI").Text()
		if err != nil || who != "shop" {
			t.Errorf("%s: %q, %v", url, who, err)
		}
		_ = c.Close()
	}
}

// A call that waits until Redis answers again goes to the new master as soon as the sentinels
// announce it.
func TestAMasterThatSentinelsNameIsTold(t *testing.T) {
	old, next := testkit.StartRedis(t), testkit.StartRedis(t)
	var now atomic.Pointer[string]
	at := func(s *testkit.Redis) *string { _, port, _ := strings.Cut(s.Addr(), ":"); return &port }
	now.Store(at(old))
	c, err := wire.Open(wire.Address{Mode: "sentinel", URL: "redis://" + testkit.Sentinel(t,
		func() string { return *now.Load() }) + "/0?master_name=m"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	ctx := t.Context()
	next.Client().Set(ctx, "name", "next", 0)
	old.Client().Set(ctx, "name", "old", 0)
	if name := c.Get(ctx, "name").Val(); name != "old" {
		t.Fatalf("%q answers", name)
	}
	old.Kill()
	_ = c.Ping(ctx) // by the connection that was there
	for range wire.PoolSize + 1 {
		if err := c.Ping(ctx).Err(); !wire.NotSent(err) {
			t.Fatalf("%v of a master that is dead", err)
		}
	}
	select {
	case <-c.Back():
		t.Error("notified before there is another master")
	default:
	}
	now.Store(at(next))
	<-c.Back()
	if name, err := c.Get(ctx, "name").Result(); name != "next" {
		t.Errorf("%q answers after it: %v", name, err)
	}
}

// calls is how often the server has carried out commands of these names.
func calls(t *testing.T, srv *testkit.Redis, names ...string) (n int) {
	t.Helper()
	info, err := srv.Client().Info(t.Context(), "commandstats").Result()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(info) {
		for _, name := range names {
			var k int
			if _, err := fmt.Sscanf(line, "cmdstat_"+name+":calls=%d,", &k); err == nil {
				n += k
			}
		}
	}
	return n
}

// push pushes an entry that was not pushed before.
func (s *Store) push(ctx context.Context, p *notice.Push) error {
	p.Mark = rand.Text()
	return Push(ctx, s.c, s.space, p, time.Minute)
}

// Each script and each push, its answer lost: it was made once.
func TestAWriteWhoseAnswerIsLostIsNotSentAgain(t *testing.T) {
	const key = "app1:a:b:1"
	writes := []struct {
		name string
		do   func(ctx context.Context, s *Store) error
	}{
		{"schedule", func(ctx context.Context, s *Store) error {
			_, err := s.Schedule(ctx, partition, []Request{{Key: "app1:a:b:2"}})
			return err
		}},
		{"claim", func(ctx context.Context, s *Store) error {
			_, err := s.ClaimKeys(ctx, partition, Lease{"t1", lease}, []string{key})
			return err
		}},
		{"sweep", func(ctx context.Context, s *Store) error {
			_, err := s.Sweep(ctx, partition, Lease{"t2", lease}, SweepOptions{Limit: 10})
			return err
		}},
		{"recover", func(ctx context.Context, s *Store) error {
			_, err := s.Recover(ctx, partition, Lease{"t1", lease}, 10, time.Second)
			return err
		}},
		{"settle", func(ctx context.Context, s *Store) error {
			_, err := s.Settle(ctx, partition, []Settlement{{Claim: Claim{Notice: &notice.Notice{Key: key}, token: "t1"}, Ending: EndDelivered}})
			return err
		}},
		{"amend", func(ctx context.Context, s *Store) error {
			_, err := s.Amend(ctx, prefix, key, Reschedule, When{Delay: time.Hour})
			return err
		}},
		{"trim", func(ctx context.Context, s *Store) error {
			_, _, err := s.Trim(ctx, 0, []Trim{{Prefix: prefix}}, 10)
			return err
		}},
		{"push to a list", func(ctx context.Context, s *Store) error {
			return s.push(ctx, &notice.Push{Key: "list", Entry: []string{"x"}})
		}},
		{"push to a stream", func(ctx context.Context, s *Store) error {
			return s.push(ctx, &notice.Push{Key: "stream", Stream: true, MaxLen: 10, Entry: []string{"f", "x"}})
		}},
	}
	for _, mode := range []string{"standalone", "sentinel", "cluster"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			s, srv, p := behind(t, mode)
			ctx := t.Context()
			s.put(t, Request{Key: key})
			for _, w := range writes {
				// The first time loads the script.
				if err := w.do(ctx, s); err != nil {
					t.Fatalf("%s: %v", w.name, err)
				}
				names, word := []string{"evalsha", "eval"}, "evalsha"
				before := calls(t, srv, names...)
				p.lose(word, 1, false)
				err := w.do(ctx, s)
				if err == nil || p.losses() != 1 {
					t.Errorf("%s: %v after %d lost answers, want an error after 1", w.name, err, p.losses())
				}
				if n := calls(t, srv, names...) - before; n != 1 {
					t.Errorf("%s: made %d times", w.name, n)
				}
			}
			if n, m := srv.Client().LLen(ctx, "list").Val(), srv.Client().XLen(ctx, "stream").Val(); n != 2 || m != 2 {
				t.Errorf("%d entries in the list and %d in the stream, want 2 and 2: one call answered and one not", n, m)
			}
		})
	}
}

// A node does not run a call that it redirects or defers, so such a write is sent again.
func TestWritesFollowASlotThatMoves(t *testing.T) {
	ctx := t.Context()
	const shard = "notifier:{0}:shadow:" + prefix
	slot := 13907 // CLUSTER KEYSLOT 0
	a, b := testkit.StartCluster(t, slot)
	if got := a.Client().ClusterKeySlot(ctx, shard).Val(); int(got) != slot {
		t.Fatalf("the shard is in slot %d", got)
	}
	c, err := wire.Open(wire.Address{Mode: "cluster", URL: "redis://" + a.Addr()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	s := New(Options{Client: c.Commander, Space: keys.Space{Namespace: "notifier", Shards: 1}, Cluster: true,
		Prefixes: []string{prefix}, Retention: time.Hour, Retain: 1000})
	s.put(t, Request{Key: "app1:a:b:1"}) // the client knows where the slot is
	ids := map[*testkit.Redis]string{}
	for _, n := range []*testkit.Redis{a, b} {
		if ids[n], err = n.Client().Do(ctx, "cluster", "myid").Text(); err != nil {
			t.Fatal(err)
		}
	}
	setSlot := func(n *testkit.Redis, args ...any) {
		t.Helper()
		if err := n.Client().Do(ctx, append([]any{"cluster", "setslot", slot}, args...)...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	setSlot(b, "importing", ids[a])
	setSlot(a, "migrating", ids[b])
	// One of its keys has gone over and others have not.
	host, port, _ := strings.Cut(b.Addr(), ":")
	migrate := func(n int) {
		t.Helper()
		for _, k := range a.Client().ClusterGetKeysInSlot(ctx, slot, n).Val() {
			if err := a.Client().Migrate(ctx, host, port, k, 0, 5*time.Second).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
	migrate(1)
	_, err = s.Schedule(ctx, partition, []Request{{Key: "app1:a:b:2"}})
	if stats := a.Client().Info(ctx, "errorstats").Val(); !errors.Is(err, wire.ErrUnavailable) || !strings.Contains(stats,
		"errorstat_TRYAGAIN:count=6") {
		t.Errorf("during the move: %v after\n%s", err, stats)
	}
	migrate(100)
	push := &notice.Push{Key: "{0}list", Entry: []string{"x"}, Mark: "m:1:0"}
	if err := Push(ctx, c, s.space, push, time.Minute); !errors.Is(err, notice.ErrUnanswered) || !errors.Is(err,
		wire.ErrUnavailable) { // TRYAGAIN
		t.Error(err)
	}
	setSlot(b, "node", ids[b])
	setSlot(a, "node", ids[b])
	s.put(t, Request{Key: "app1:a:b:2"}) // MOVED
	if err := Push(ctx, c, s.space, push, time.Minute); err != nil {
		t.Error(err)
	}
	if n, m := b.Client().HLen(ctx, "notifier:{0}:records:"+prefix).Val(), b.Client().LLen(ctx, "{0}list").Val(); n != 2 || m != 1 {
		t.Errorf("%d records and %d entries, want 2 and 1", n, m)
	}
}
