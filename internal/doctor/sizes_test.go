package doctor

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/config"
	"notifier/internal/keys"
	"notifier/internal/store"
	"notifier/internal/testkit"
)

func TestTooLarge(t *testing.T) {
	for _, c := range []struct {
		held []int64
		want []int
	}{
		{[]int64{5000, 1000, 1000, 0}, nil},      // 2.9 times the mean
		{[]int64{7000, 1000, 1000, 0}, []int{0}}, // 3.1 times
		{[]int64{900, 1, 1, 1}, nil},             // few notices
		{[]int64{0, 0, 0, 0}, nil},               // none
		{[]int64{10, 10, 10, 10, 2000, 0}, []int{4}},
		{[]int64{100000, 0, 0}, nil}, // 3 times the mean
	} {
		if got := tooLarge(c.held); !slices.Equal(got, c.want) {
			t.Errorf("%v: %v, want %v", c.held, got, c.want)
		}
	}
}

func TestExamineReportsLargeShard(t *testing.T) {
	s := testkit.StartRedis(t, testkit.WithConfig(good...))
	cfg, c, ctx := configFor(s.URL()), s.Client(), t.Context()
	space := keys.Space{Namespace: "notifier", Shards: 4}
	if err := c.HSet(ctx, space.Meta(), "layout", store.Version, "shards", 4).Err(); err != nil {
		t.Fatal(err)
	}
	if err := c.SAdd(ctx, space.Routes(), "app1:orders").Err(); err != nil {
		t.Fatal(err)
	}
	cfg.Shards = 4
	if r := examine(t, cfg, Options{}); r.Warnings > 0 {
		t.Errorf("an empty service:\n%s", r.text())
	}
	for i := range 1000 {
		key := fmt.Sprintf("app1:orders:paid:same~%d", i)
		if err := c.HSet(ctx, space.Records(space.Partition("app1:orders", key)), key, `{"due":1}`).Err(); err != nil {
			t.Fatal(err)
		}
	}
	tag := space.Tag(space.Shard("app1:orders:paid:same"))
	examine(t, cfg, Options{}).says(t, "shards", Warning, "shard {"+tag+"} holds 1000 notices, more than 3 times the mean")
}

func TestExamineReportsKeysOfOtherPrograms(t *testing.T) {
	s := testkit.StartRedis(t, testkit.WithConfig(good...))
	cfg, c, ctx := configFor(s.URL()), s.Client(), t.Context()
	space := keys.Space{Namespace: "notifier", Shards: 1}
	due := float64(time.Now().Add(time.Hour).UnixMilli())
	for i, score := range []float64{due + 0.5, due, due + 0.5} {
		key := fmt.Sprintf("app1:orders:paid:%d", i)
		if err := c.ZAdd(ctx, space.Shadow(space.Partition("app1:orders", key)), redis.Z{Score: score, Member: key}).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if r := examine(t, cfg, Options{}); strings.Contains(r.text(), "keys of their names") {
		t.Errorf("without such keys:\n%s", r.text())
	}
	for i := range 2 {
		if err := c.HSet(ctx, fmt.Sprintf("app1:orders:paid:%d", i), "paid", 1).Err(); err != nil {
			t.Fatal(err)
		}
	}
	examine(t, cfg, Options{}).says(t, "keys", Warning, "1 notice without a timer, because other programs have keys of their names, for "+
		"example app1:orders:paid:0")
}

// A timer that a slow node has kept is no key of another program.
func TestNumbersThatExpireAreNotReportedInACluster(t *testing.T) {
	a, _ := testkit.StartCluster(t, 16382)
	cfg, ctx := configFor(a.URL()), t.Context()
	cfg.Redis.Mode = config.Cluster
	c := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{a.Addr()}})
	t.Cleanup(func() { _ = c.Close() })
	space := keys.Space{Namespace: "notifier", Shards: 1}
	due := float64(time.Now().Add(time.Hour).UnixMilli()) + 0.5
	for key, put := range map[string]func(key string) error{
		"app1:orders:paid:late":    func(key string) error { return c.Set(ctx, key, "3", time.Hour).Err() },
		"app1:orders:paid:absent":  func(string) error { return nil },
		"app1:orders:paid:counter": func(key string) error { return c.Set(ctx, key, "3", 0).Err() },
		"app1:orders:paid:cached":  func(key string) error { return c.Set(ctx, key, "x", time.Hour).Err() },
		"app1:orders:paid:hash":    func(key string) error { return c.HSet(ctx, key, "paid", 1).Err() },
	} {
		if err := put(key); err != nil {
			t.Fatal(err)
		}
		if err := c.ZAdd(ctx, space.Shadow(space.Partition("app1:orders", key)), redis.Z{Score: due, Member: key}).Err(); err != nil {
			t.Fatal(err)
		}
	}
	examine(t, cfg, Options{}).says(t, "keys", Warning, "3 notices without a timer")
}
