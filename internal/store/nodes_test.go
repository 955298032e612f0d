package store

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/testkit"
	"notifier/internal/wire"
)

// lacking starts a cluster of one node. Lose takes the slots of keys from it, as if
// they were those of another node that is dead, and regain gives them back; the rest
// is served all the while.
func lacking(t *testing.T) (c *redis.ClusterClient, lose, regain func(names ...string)) {
	t.Helper()
	srv := testkit.StartRedis(t, testkit.WithConfig("cluster-enabled yes", "cluster-require-full-coverage no"))
	ctx, own := t.Context(), srv.Client()
	if err := own.ClusterAddSlotsRange(ctx, 0, 16383).Err(); err != nil {
		t.Fatal(err)
	}
	c = redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{srv.Addr()}, DisableIdentity: true, MaxRedirects: 1})
	t.Cleanup(func() { _ = c.Close() })
	for end := time.Now().Add(30 * time.Second); own.Set(ctx, "probe", "x", 0).Err() != nil; {
		if time.Now().After(end) {
			t.Fatal("the cluster does not agree within 30 s")
		}
	}
	change := func(f func(slot int) error) func(names ...string) {
		return func(names ...string) {
			t.Helper()
			for _, name := range names {
				if err := f(int(own.ClusterKeySlot(ctx, name).Val())); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	return c, change(func(slot int) error { return own.ClusterDelSlots(ctx, slot).Err() }),
		change(func(slot int) error { return own.ClusterAddSlots(ctx, slot).Err() })
}

func inCluster(c *redis.ClusterClient, shards int, prefixes ...string) *Store {
	return New(Options{Client: c, Space: keys.Space{Namespace: "notifier", Shards: shards}, Cluster: true, Prefixes: prefixes,
		Retention: time.Hour, Retain: 100})
}

// The copies in the shards say which routes are paused while the set cannot be read,
// and are made right when it can.
func TestPausesAreReadFromCopies(t *testing.T) {
	t.Parallel()
	c, lose, regain := lacking(t)
	ctx, s := t.Context(), inCluster(c, 3, "app1", "app2")
	if err := s.Layout.Learn(ctx); err != nil {
		t.Fatal(err)
	}
	if err := s.Layout.Pause(ctx, "app1"); err != nil {
		t.Fatal(err)
	}
	expect := func(when string, want ...[]string) {
		t.Helper()
		p, err := s.Layout.Pauses(ctx)
		if err != nil || !slices.EqualFunc(p.Shards, want, func(a, b []string) bool { return slices.Equal(a, b) && (a == nil) == (b == nil) }) {
			t.Errorf("%s: %#v, %v; want %#v", when, p.Shards, err, want)
		}
	}
	app1 := []string{"app1"}
	expect("all is there", app1, app1, app1)
	lose(s.space.Paused())
	expect("the set is away", app1, app1, app1)
	lose(s.space.Base(1))
	expect("and the node of shard 1", app1, nil, app1)
	if err := s.Layout.Pause(ctx, "app2"); !errors.Is(err, wire.ErrUnavailable) {
		t.Errorf("%v: a pause was accepted without the node that decides on it", err)
	}
	regain(s.space.Paused())
	if err := s.Layout.Pause(ctx, "app2"); err != nil { // without the copy of shard 1
		t.Error(err)
	}
	both := []string{"app1", "app2"}
	regain(s.space.Base(1))
	if p, err := s.Layout.Pauses(ctx); err != nil || !p.Stale {
		t.Errorf("%+v, %v: want it stale, shard 1 having missed a pause", p, err)
	}
	if err := s.Layout.CopyPaused(ctx); err != nil {
		t.Error(err)
	}
	if p, err := s.Layout.Pauses(ctx); err != nil || p.Stale {
		t.Errorf("%+v, %v: stale after the copies were made", p, err)
	}
	lose(s.space.Paused())
	expect("the set is away again", both, both, both)
	lose(s.space.Base(0), s.space.Base(1), s.space.Base(2))
	if p, err := s.Layout.Pauses(ctx); !errors.Is(err, wire.ErrUnavailable) {
		t.Errorf("%+v, %v: nothing can be read", p, err)
	}
}

// An instance starts without the node of notifier:meta and without some shards, and serves the
// others.
func TestBeginsWithWhatAnswers(t *testing.T) {
	t.Parallel()
	c, lose, regain := lacking(t)
	ctx, first := t.Context(), inCluster(c, 3, "app1")
	if err := first.Layout.Learn(ctx); err != nil {
		t.Fatal(err)
	}
	lose(first.space.Meta(), first.space.Routes(), first.space.Base(0))
	for _, want := range []int{0, 3} {
		if n, _, err := Discover(ctx, c, keys.Space{Namespace: "notifier", Shards: want}, true); n.Shards != 3 || err != nil {
			t.Errorf("%d shards, %v; want 3, as shard 1 has it", n.Shards, err)
		}
	}
	if n, _, err := Discover(ctx, c, keys.Space{Namespace: "notifier", Shards: 5}, true); !errors.Is(err, wire.ErrUnavailable) {
		t.Errorf("%d shards, %v; another count waits for notifier:meta", n.Shards, err)
	}
	second := inCluster(c, 3, "app1")
	if err := second.Wire().Detect(ctx); err != nil {
		t.Error(err)
	}
	if err := second.Layout.Learn(ctx); err != nil {
		t.Fatal(err)
	}
	if err := second.Layout.Known(ctx); err != nil {
		t.Error(err)
	}
	if lost := second.Wire().Unreached(ctx); len(lost) != 1 || fmt.Sprint(lost[0].Shards) != "[0]" {
		t.Errorf("%+v, want shard 0", lost)
	}
	put := func(key string) error {
		p := second.space.Partition("app1", key)
		_, err := second.Schedule(ctx, p, []Request{{Key: key, Content: notice.Content{Body: []byte("x")}}})
		return err
	}
	var served [3]int
	for i := range 60 {
		key := fmt.Sprintf("app1:a:b:%d", i)
		shard := second.space.Shard(key)
		_, ferr := second.Find(ctx, "app1", key)
		err := put(key)
		switch {
		case shard == 0 && (!errors.Is(err, wire.ErrUnavailable) || !errors.Is(ferr, wire.ErrUnavailable)):
			t.Fatalf("%s, whose node is away: %v; it is found: %v", key, err, ferr)
		case shard != 0 && (err != nil || !errors.Is(ferr, ErrNotFound)):
			t.Fatalf("%s: %v; it is found: %v", key, err, ferr)
		case err == nil:
			served[shard]++
		}
	}
	if served[0] > 0 || served[1] == 0 || served[2] == 0 {
		t.Errorf("served %v", served)
	}
	regain(first.space.Base(0))
	for i := range 60 {
		if err := put(fmt.Sprintf("app1:a:b:%d", i)); err != nil {
			t.Fatalf("%d, its node being back: %v", i, err)
		}
	}
	second.Timers.Flush()
}
