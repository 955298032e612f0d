package doctor

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"notifier/internal/fleet"
	"notifier/internal/keys"
	"notifier/internal/store"
	"notifier/internal/testkit"
)

func TestExamineReportsPrefixesOfWorkers(t *testing.T) {
	s := testkit.StartRedis(t, testkit.WithConfig(good...))
	cfg := configFor(s.URL())
	ctx, c := t.Context(), s.Client()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(c.HSet(ctx, "notifier:meta", "layout", store.Version, "shards", 1).Err())
	must(c.SAdd(ctx, "notifier:routes", "app1:orders", "app1:orders:close", "app1:orders:close=1:worker", "app1:idle", "app1:idle=1:worker",
		"app1:busy", "app1:busy=3:worker", "app1:old", "app1:old=1:worker", "app1:old=2:").Err())
	for _, prefix := range []string{"app1:orders:close", "app1:busy", "app1:old"} {
		must(c.ZAdd(ctx, "notifier:{0}:shadow:"+prefix, redis.Z{Score: 1, Member: "k"}).Err())
	}

	must(c.ZAdd(ctx, "notifier:{0}:definitions:app1:old", redis.Z{Member: "app1:old:a:books"}).Err())
	now, err := c.Time(ctx).Result()
	must(err)
	must(c.ZAdd(ctx, (keys.Space{Namespace: "notifier"}).Serving(), redis.Z{Score: float64(now.UnixMilli()), Member: "app1:busy=worker one"},
		redis.Z{Score: float64(now.UnixMilli()), Member: "app1:busy=worker two"},
		redis.Z{Score: float64(now.Add(-2 * fleet.StaleAfter).UnixMilli()), Member: "app1:idle=worker gone"}).Err())

	must(c.HSet(ctx, (keys.Space{Namespace: "notifier"}).Handled(), "app1:orders:close", 1796000000000).Err())
	r := examine(t, cfg, Options{})
	r.says(t, "workers", Error, "no running worker handles prefix app1:orders:close since 2026-11-30 00:53:20 UTC: 1 pending notice wait")
	r.says(t, "workers", Error, "notifier routes release app1:orders:close")
	r.says(t, "workers", Info, "no running worker handles prefix app1:idle; it has no pending notice")
	r.says(t, "workers", OK, "prefix app1:busy: 2 running workers")
	r.says(t, "prefixes", Error, "prefix app1:old, which is no longer configured, and no route matches it")
	r.says(t, "prefixes", Error, "1 recurring notices have the prefix app1:old, and no route matches it, so they have no ticks")
	for _, f := range r.Findings {
		if f.Check == "prefixes" && strings.Contains(f.Message, "app1:orders:close") {
			t.Errorf("a recorded prefix is reported as one without a route: %s", f.Message)
		}
	}

	// A route with a recorded prefix delivers nothing.
	must(c.SAdd(ctx, "notifier:routes", "app1:orders=1:worker").Err())
	r = examine(t, cfg, Options{})
	r.says(t, "workers", Error, "route orders has the prefix app1:orders, which is recorded for workers: it delivers none of its notices")
}

func TestInstancesDoesNotCompareWorkersWithTheService(t *testing.T) {
	s := testkit.StartRedis(t, testkit.WithConfig(good...))
	cfg := configFor(s.URL())
	st := store.New(store.Options{Client: s.Client(), Space: keys.Space{Namespace: "notifier", Shards: 1}})
	beat := func(id string, a fleet.About) {
		t.Helper()
		text, err := json.Marshal(a)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := fleet.NewStore(st.Layout).Publish(t.Context(), fleet.Heartbeat{ID: id, About: string(text)}); err != nil {
			t.Fatal(err)
		}
	}
	beat("aaaaaaaaaaaa", fleet.About{Label: "web-1", Version: "v1", Takeover: 5000, Limits: "fleet",
		Routes: map[string]string{"orders": cfg.Routes[0].Digest()}})
	worker := func(label, digest string) fleet.About {
		return fleet.About{Label: label, Version: "worker", Takeover: 3000, Worker: true, Routes: map[string]string{"app1:batch": digest},
			Prefixes: map[string]string{"app1:batch": "app1:batch"}}
	}
	beat("bbbbbbbbbbbb", worker("batch-1", "x"))
	beat("cccccccccccc", worker("batch-2", "x"))
	if r := examine(t, cfg, Options{}); r.Errors+r.Warnings > 0 {
		t.Errorf("workers are compared with the service:\n%s", r.text())
	}

	beat("dddddddddddd", worker("batch-3", "y"))
	examine(t, cfg, Options{}).says(t, "workers", Warning, "workers have handlers for prefix app1:batch with different retry delays or "+
		"limits (instance bbbbbbbbbbbb (batch-1, version worker), instance cccccccccccc (batch-2, version worker); "+
		"instance dddddddddddd (batch-3, version worker))")
}
