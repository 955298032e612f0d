package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"notifier/internal/dispatch"
	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/store"
	"notifier/internal/testkit"
	"notifier/internal/wire"
)

// oneNode is a cluster of a single master: slots and their errors are those of a
// larger one.
func oneNode(t *testing.T, config ...string) (*testkit.Redis, *redis.ClusterClient) {
	t.Helper()
	srv := testkit.StartRedis(t, testkit.WithConfig(append(config, "cluster-enabled yes")...))
	ctx := context.Background()
	if err := srv.Client().ClusterAddSlotsRange(ctx, 0, 16383).Err(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the cluster agrees", func() bool {
		info, err := srv.Client().ClusterInfo(ctx).Result()
		return err == nil && len(info) > 0 && srv.Client().Set(ctx, "probe", "x", 0).Err() == nil
	})
	c := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{srv.Addr()}})
	t.Cleanup(func() { _ = c.Close() })
	return srv, c
}

func startCluster(t *testing.T, srv *testkit.Redis, shards int, h func(*wire.Conn) dispatch.Handler, routes ...*route.Route) *world {
	t.Helper()
	return startClusterWith(t, srv, shards, func(o *Options) { o.Handler = h(o.Conn) }, routes...)
}

func startClusterWith(t *testing.T, srv *testkit.Redis, shards int, change func(*Options), routes ...*route.Route) *world {
	t.Helper()
	table, err := route.NewTable(routes)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := wire.Open(wire.Address{Mode: "cluster", URL: "redis://" + srv.Addr()})
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Conn: conn, Space: keys.Space{Namespace: "notifier", Shards: shards}, Routes: table, Instance: "i", Concurrency: 64,
		Grace: 50 * time.Millisecond, Retention: time.Hour, Retain: 100000, ConfigureRedis: true, Drain: 10 * time.Second,
		Logger: zaptest.NewLogger(t, zaptest.Level(zap.WarnLevel))}
	change(&o)
	e := New(o)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
		e.Close(context.Background())
		_ = conn.Close()
	})
	testkit.Next(t, "subscribed", e.Subscribed())
	return &world{Engine: e, srv: srv, stop: func() {}}
}

func TestQueuesInACluster(t *testing.T) {
	t.Parallel()
	srv, c := oneNode(t)
	reported := queueRoute("l", "app1", route.Target{Kind: route.KindList, Key: "jobs"}, route.AckReport)
	reported.Timeout = time.Minute // no report comes too late, however slow the machine is
	w := startCluster(t, srv, 4, func(conn *wire.Conn) dispatch.Handler {
		return Handlers(conn, keys.Space{Namespace: "notifier"}, nil, nil, nil)
	},
		reported,
		queueRoute("s", "app2", route.Target{Kind: route.KindStream, Key: "events"}, route.Ack2xx),
		queueRoute("bad", "app3", route.Target{Kind: route.KindList, Key: "probe"}, route.Ack2xx))
	ctx := context.Background()
	const n = 20
	for i := range n {
		for app := 1; app <= 3; app++ {
			k := fmt.Sprintf("app%d:a:b:%d", app, i)
			if _, err := w.Schedule(ctx, store.Request{Key: k, Delay: 30 * time.Millisecond,
				Content: notice.Content{Body: []byte("x")}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for range n {
		v, err := c.BLPop(ctx, 30*time.Second, "jobs").Result()
		if err != nil {
			t.Fatal(err)
		}
		var e entry
		if err := json.Unmarshal([]byte(v[1]), &e); err != nil {
			t.Fatal(err)
		}
		// The entry comes a moment before its notice says so: the report waits for that.
		if ch, err := w.Report(ctx, e.Key, notice.Report{ID: e.ID, Attempt: e.Attempt,
			Result: notice.Result{Outcome: notice.OutcomeDelivered}}); err != nil || !ch.Done {
			t.Fatalf("the report of %s: %+v, %v", e.Key, ch, err)
		}
	}
	for i := range n {
		w.until(t, fmt.Sprintf("app1:a:b:%d", i), notice.Delivered)
		w.until(t, fmt.Sprintf("app2:a:b:%d", i), notice.Delivered)
		if f := w.until(t, fmt.Sprintf("app3:a:b:%d", i), notice.Dead); f.Reason != notice.ReasonQueue {
			t.Errorf("%+v", f.Notice)
		}
	}
	if l := c.XLen(ctx, "events").Val(); l != n {
		t.Errorf("%d entries in the stream, want %d", l, n)
	}
}

func TestPlainTimersInACluster(t *testing.T) {
	t.Parallel()
	srv, c := oneNode(t)
	ctx := context.Background()
	g := newGot(1000)
	g.reply = func(n *notice.Notice) notice.Result {
		if n.NextAttempt() < 2 {
			return notice.RetryResult(notice.ReasonStatus5xx, "not yet")
		}
		return notice.DeliveredResult(200)
	}
	r := testRoute("r", "app1")
	r.Adopt = true
	const before = "app1:a:b:before"
	if err := c.Set(ctx, before, "was there", time.Hour).Err(); err != nil {
		t.Fatal(err)
	}
	w := startCluster(t, srv, 4, func(*wire.Conn) dispatch.Handler {
		return g
	}, r)
	// expire sets timers of such a life, and says how many came without their body: a timer
	// that is over before this machine has come to read it is one of those.
	expire := func(life time.Duration) (lost int) {
		const n = 50
		name := func(i int) string { return fmt.Sprintf("app1:a:b:%d-%d", life.Milliseconds(), i) }
		body := func(i int) string { return fmt.Sprintf(`{"i":%d}`, i) }
		for i := range n {
			if err := c.Set(ctx, name(i), body(i), life).Err(); err != nil {
				t.Fatal(err)
			}
		}
		for i := range n {
			f := w.until(t, name(i), notice.Delivered)
			if f.Lost {
				lost++
			} else if string(f.Body) != body(i) {
				t.Errorf("%+v", f.Notice)
			}
			if f.AttemptsMade != 2 || g.times(name(i)) != 2 {
				t.Errorf("%+v was handled %d times", f.Notice, g.times(name(i)))
			}
		}
		return lost
	}
	life := 500 * time.Millisecond
	for lost := expire(life); lost > 0; lost = expire(life) {
		if life *= 2; life > 10*time.Second {
			t.Fatalf("of timers of %s, %d came without their body", life/2, lost)
		}
	}
	if f := w.until(t, before, notice.Scheduled); string(f.Body) != "was there" {
		t.Errorf("%+v", f.Notice)
	}
	if ch, err := w.Fire(ctx, before); err != nil || !ch.Done {
		t.Fatal(ch, err)
	}
	if f := w.until(t, before, notice.Delivered); string(f.Body) != "was there" {
		t.Errorf("%+v", f.Notice)
	}
	const k = "app1:a:b:changing"
	c.Set(ctx, k, "one", time.Hour)
	w.until(t, k, notice.Scheduled)
	c.Expire(ctx, k, 2*time.Hour)
	eventually(t, "moved", func() bool {
		f, err := w.Find(ctx, k)
		return err == nil && f.Due.After(time.Now().Add(90*time.Minute)) && string(f.Body) == "one"
	})
	c.Set(ctx, k, "two", time.Hour)
	eventually(t, "replaced", func() bool {
		f, err := w.Find(ctx, k)
		return err == nil && f.State == notice.Scheduled && string(f.Body) == "two"
	})
	c.Del(ctx, k)
	w.until(t, k, notice.Cancelled)
	c.Set(ctx, k, "three", time.Hour)
	w.until(t, k, notice.Scheduled)
	if ch, err := w.Fire(ctx, k); err != nil || !ch.Done {
		t.Fatal(ch, err)
	}
	w.until(t, k, notice.Delivered)
	w.adopter.Scan()
	c.Set(ctx, "app1:a:b:marker", "x", time.Hour)
	w.until(t, "app1:a:b:marker", notice.Scheduled)
	if got := g.times(k); got != 2 || w.state(k) != notice.Delivered {
		t.Errorf("fired, it was handled %d times and is %s", got, w.state(k))
	}
}
