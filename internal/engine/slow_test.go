//go:build !quick

package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"
	logged "go.uber.org/zap/zaptest/observer"

	"notifier/internal/dispatch"
	"notifier/internal/keys"
	"notifier/internal/move"
	"notifier/internal/notice"
	"notifier/internal/store"
	"notifier/internal/testkit"
	"notifier/internal/wire"
)

const withPostgres = true

// Each part logged an outage once, in its own words, and did not log that it lasts or is over.
func TestAnOutageIsToldAgainWhileItLastsAndItsEnd(t *testing.T) {
	t.Parallel()
	srv := testkit.StartRedis(t)
	core, logs := logged.New(zap.InfoLevel)
	start(t, srv, newSink(1), func(o *Options) {
		o.Logger, o.OutageEvery = zap.New(core), 1500*time.Millisecond // for a minute
	}, testRoute("r", "app1"))
	srv.Pause()
	const begun, still = "Redis is unavailable: nothing is delivered and calls are refused, retrying",
		"Redis is still unavailable: nothing is delivered and calls are refused"
	eventually(t, "told three times", func() bool {
		return logs.FilterMessage(begun).Len() == 1 && logs.FilterMessage(still).Len() >= 2
	})
	srv.Unpause()
	eventually(t, "its end", func() bool { return logs.FilterMessage("Redis is available again").Len() == 1 })
	for _, l := range logs.All() {
		if l.Level >= zap.WarnLevel {
			t.Log(l.Level, l.Message, l.ContextMap())
		}
	}
	first, last := logs.FilterMessage(begun).All()[0], logs.FilterMessage("Redis is available again").All()[0]
	if first.Level != zap.ErrorLevel || last.Level != zap.WarnLevel || last.ContextMap()["after"] == nil {
		t.Errorf("%v %v", first, last)
	}
	for _, l := range logs.FilterMessage(still).All() {
		if d, err := time.ParseDuration(fmt.Sprint(l.ContextMap()["for"])); err != nil || d < time.Second ||
			l.ContextMap()["cause"] != "redis does not answer" {
			t.Errorf("%v", l.ContextMap())
		}
	}
}

// A Redis that answers but refuses writes is unavailable, and the reason is its answer.
func TestRefusedWritesAreAnOutage(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		refuse, accept []any
		cause          string
	}{
		"a replica": {[]any{"REPLICAOF", "127.0.0.1", "1"}, []any{"REPLICAOF", "NO", "ONE"}, "READONLY "},
		"without replicas": {[]any{"CONFIG", "SET", "min-replicas-to-write", "1"}, []any{"CONFIG", "SET", "min-replicas-to-write", "0"},
			"NOREPLICAS "},
	} {
		t.Run(name, func(t *testing.T) {
			srv := testkit.StartRedis(t)
			core, logs := logged.New(zap.InfoLevel)
			w := start(t, srv, newSink(1), func(o *Options) { o.Logger = zap.New(core) }, testRoute("r", "app1"))
			do := func(command []any) {
				t.Helper()
				if err := srv.Client().Do(context.Background(), command...).Err(); err != nil {
					t.Fatal(err)
				}
			}
			do(c.refuse)
			begun := "Redis is unavailable: nothing is delivered and calls are refused, retrying"
			eventually(t, "an outage", func() bool { return logs.FilterMessage(begun).Len() == 1 })
			want := "redis refuses commands: " + c.cause
			if cause := fmt.Sprint(logs.FilterMessage(begun).All()[0].ContextMap()["cause"]); !strings.HasPrefix(cause, want) {
				t.Errorf("cause %q", cause)
			}
			if r := w.Ready(context.Background()); r.Ready || len(r.Reasons) != 1 || !strings.HasPrefix(r.Reasons[0], want) {
				t.Errorf("%+v", r)
			}
			do(c.accept)
			eventually(t, "the end", func() bool {
				return logs.FilterMessage("Redis is available again").Len() == 1 && w.Ready(context.Background()).Ready
			})
		})
	}
}

// goneTimers are the changes of an adopted timer by which a client cancels its notice.
func goneTimers(ctx context.Context, c *redis.Client) map[string]func(k string) error {
	return map[string]func(k string) error{
		"del":     func(k string) error { return c.Del(ctx, k).Err() },
		"rename":  func(k string) error { return c.Rename(ctx, k, "elsewhere:"+k).Err() },
		"persist": func(k string) error { return c.Persist(ctx, k).Err() },
		"hash": func(k string) error {
			p := c.TxPipeline()
			p.Del(ctx, k)
			p.HSet(ctx, k, "f", "v")
			_, err := p.Exec(ctx)
			return err
		},
	}
}

// adopted sets a timer and waits until its notice is stored.
func (w *world) adopted(t *testing.T, c *redis.Client, k string, life time.Duration) string {
	t.Helper()
	if err := c.Set(t.Context(), k, "p", life).Err(); err != nil {
		t.Fatal(err)
	}
	w.until(t, k, notice.Scheduled)
	return k
}

// withoutEvents changes keys while Redis sends no events.
func withoutEvents(t *testing.T, c *redis.Client, do func(k string) error, ks ...string) {
	t.Helper()
	const name = "notify-keyspace-events"
	flags := c.ConfigGet(t.Context(), name).Val()[name]
	c.ConfigSet(t.Context(), name, "")
	for _, k := range ks {
		if err := do(k); err != nil {
			t.Fatal(k, err)
		}
	}
	c.ConfigSet(t.Context(), name, flags)
}

// Changes of adopted timers by clients while no events arrive.
func TestADeletedTimerIsCancelledThoughItsEventWasLost(t *testing.T) {
	t.Parallel()
	g := newGot(1000)
	w, c := adopting(t, g)
	const n = 20
	for how, do := range goneTimers(t.Context(), c) {
		var ks []string
		for i := range n {
			ks = append(ks, w.adopted(t, c, fmt.Sprintf("app1:%s:k:%d", how, i), time.Hour))
			withoutEvents(t, c, do, ks[i])
		}
		w.adopter.Scan() // as a subscription does when it begins
		for _, k := range ks {
			w.until(t, k, notice.Cancelled)
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.all) > 0 {
		t.Errorf("%d notices were delivered", len(g.all))
	}
}

// The check just before the due time comes by itself. It looks 1.5 s ahead, so that a stall of the machine makes it too late: then the test
// tries again with other timers.
func TestADeletedTimerIsFoundBeforeItIsDue(t *testing.T) {
	t.Parallel()
	const n, tries = 5, 6
	w, c := adopting(t, newGot(1000))
	c.Set(t.Context(), "app1:a:kept:1", "p", 2*time.Hour)
	left := goneTimers(t.Context(), c)
	for try := 0; len(left) > 0; try++ {
		if try == tries {
			t.Fatalf("%d times notices were delivered whose timers were gone: %v", tries, slices.Collect(maps.Keys(left)))
		}
		ks := map[string][]string{}
		for how, do := range left {
			for i := range n {
				ks[how] = append(ks[how], w.adopted(t, c, fmt.Sprintf("app1:%s:k:%d-%d", how, try, i), 10*time.Second))
			}
			withoutEvents(t, c, do, ks[how]...)
		}
		for how, list := range ks {
			cancelled := 0
			for _, k := range list {
				var s notice.State
				eventually(t, k+" is finalized", func() bool {
					s = w.state(k)
					return s == notice.Cancelled || s == notice.Delivered
				})
				if s == notice.Cancelled {
					cancelled++
				}
			}
			if cancelled == n {
				delete(left, how)
			}
		}
	}
	if s := w.state("app1:a:kept:1"); s != notice.Scheduled {
		t.Errorf("a timer that is there: %s", s)
	}
}

// The timer of a notice that an old copy of deploy/schedule.lua wrote into a former shard is
// not adopted, and neither is its expiry: it comes once, with its body.
func TestANoticeInAFormerShardIsNotAdopted(t *testing.T) {
	t.Parallel()
	srv, h := testkit.StartRedis(t), newGot(10)
	adopts := testRoute("r", "app1")
	adopts.Adopt = true
	a := start(t, srv, h, nil, adopts)
	ctx, c := t.Context(), srv.Client()
	done, err := move.Reshard(ctx, move.Options{Conn: a.o.Conn, Namespace: srv.Namespace(), To: 3})
	if err != nil || !done.Changed {
		t.Fatalf("%+v, %v", done, err)
	}
	const key, after = "app1:a:b:old", "app1:a:b:after"
	due := time.Now().Add(2 * time.Second).UnixMilli()
	former := keys.Partition{Prefix: "app1"}
	space := a.store.Space()
	tx := c.TxPipeline()
	tx.HSet(ctx, space.Records(former), key, fmt.Sprintf(`{"due":%d,"made":217540597951617,"json":{"old":true}}`, due))
	tx.ZAdd(ctx, space.Shadow(former), redis.Z{Score: float64(due), Member: key})
	tx.Set(ctx, key, "1", 0)
	tx.PExpireAt(ctx, key, time.UnixMilli(due-1))
	if _, err := tx.Exec(ctx); err != nil {
		t.Fatal(err)
	}
	// Events come in their order: when that of a later timer is dealt with, so is this one's.
	if err := c.Set(ctx, after, "later", 3*time.Second).Err(); err != nil {
		t.Fatal(err)
	}
	if got := h.await(t, after); string(got.Body) != "later" {
		t.Errorf("%q", got.Body)
	}
	if c.HExists(ctx, space.Records(space.Partition("app1", key)), key).Val() && c.HExists(ctx, space.Records(former), key).Val() {
		t.Error("there are two notices of it")
	}
	// No wake was sent for it, so it waits for the next look there. It is on time, before the
	// later timer, if the mover has found it first.
	eventually(t, "the notice of the old copy", func() bool { return h.times(key) > 0 })
	h.mu.Lock()
	defer h.mu.Unlock()
	if list := h.all[key]; len(list) != 1 || string(list[0].Body) != `{"old":true}` {
		t.Errorf("%d deliveries, the first with %q", len(list), list[0].Body)
	}
}

// Without CONFIG, events are not switched on, and plain timers are delivered all the same.
func TestPlainTimersWithoutEvents(t *testing.T) {
	t.Parallel()
	srv := testkit.StartRedis(t, testkit.WithConfig(`rename-command CONFIG ""`))
	r := testRoute("r", "app1")
	r.Adopt = true
	g := newGot(100)
	w := start(t, srv, g, nil, r)
	ctx := context.Background()
	for i := range 50 {
		srv.Client().Set(ctx, key(i), strconv.Itoa(i), time.Hour)
	}
	for i := range 50 {
		w.until(t, key(i), notice.Scheduled)
		srv.Client().PExpire(ctx, key(i), 8*time.Second)
	}
	for i := range 50 {
		if f := w.until(t, key(i), notice.Delivered); string(f.Body) != strconv.Itoa(i) || f.AttemptsMade != 1 {
			t.Errorf("%+v", f.Notice)
		}
	}
}

// A call whose caller had given up ran when its node continued, after the inspection at the node's
// recovery. No instance knew of its notice, which waited for the next idle inspection, up to 10 s.
func TestWhatANodeStillCarriesOutIsFoundSoonAfterItsReturn(t *testing.T) {
	t.Parallel()
	srv, c := oneNode(t)
	s := newSink(3)
	w := startCluster(t, srv, 1, func(*wire.Conn) dispatch.Handler {
		return s
	}, testRoute("r", "app1"))
	ctx := t.Context()
	put := func(key string) {
		w.put(t, 1, func(int) store.Request { return store.Request{Key: key} })
		s.await(t, 1)
	}
	put("app1:a:b:before")

	srv.Pause()
	eventually(t, "the node is away", func() bool { return len(w.o.Conn.Nodes.Away()) == 1 })
	srv.Unpause()
	eventually(t, "the node is back", func() bool { return len(w.o.Conn.Nodes.Away()) == 0 })
	back := time.Now() // the first idle look comes 10 s after the engine's begin
	put("app1:a:b:back")

	time.Sleep(3 * time.Second) // sleep: the inspections after a reconnect are over

	// What its script writes, without its wake.
	sp := keys.Space{Namespace: "notifier", Shards: 1}
	p := keys.Partition{Prefix: "app1", Shard: 0}
	const key = "app1:a:b:late"
	now := time.Now().UnixMilli()
	if _, err := c.TxPipelined(ctx, func(tx redis.Pipeliner) error {
		tx.HSet(ctx, sp.Records(p), key, `{"due":`+strconv.FormatInt(now, 10)+`,"made":`+strconv.FormatInt((now-1577836800000)*1000, 10)+`}`)
		tx.ZAdd(ctx, sp.Shadow(p), redis.Z{Score: float64(now), Member: key})
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	s.await(t, 1)
	if took := time.Since(back); took > 8*time.Second {
		t.Errorf("it was found %s after the node's return, by the idle look", took)
	}
}

// Two sides deliver during a migration. Scheduled notices and adopted timers are delivered once,
// with their bodies, by either side. A timer that its producer sets again on the old side replaces
// the moved one. A producer on the new side moves and deletes imported timers.
func TestBothSidesDeliverThroughAMigration(t *testing.T) {
	t.Parallel()
	from, to, h := testkit.StartRedis(t), testkit.StartRedis(t), newGot(1000)
	adopts, plain := testRoute("r", "app1"), testRoute("s", "app2")
	adopts.Adopt = true
	a := start(t, from, h, nil, adopts, plain)
	b := start(t, to, h, nil, adopts, plain)
	<-a.Subscribed()
	<-b.Subscribed()
	const n = 40
	ctx, old, fresh := t.Context(), from.Client(), to.Client()
	set := func(name string, value string, d time.Duration) {
		t.Helper()
		if err := old.Set(ctx, name, value, d).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for i := range n {
		set(fmt.Sprintf("app1:a:b:%d", i), fmt.Sprint("body ", i), 6*time.Second)
		if _, err := a.Schedule(ctx, store.Request{Key: fmt.Sprintf("app2:a:b:%d", i), Delay: time.Duration(200*i) * time.Millisecond,
			Content: notice.Content{Body: []byte("1")}}); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"again", "moved", "gone"} {
		set("app1:a:b:"+name, "first", time.Hour)
	}
	adopted := func(e *world, key string) bool {
		f, err := e.Find(ctx, key)
		return err == nil && f.Adopted
	}
	eventually(t, "the timers are adopted", func() bool {
		return adopted(a, "app1:a:b:0") && adopted(a, fmt.Sprintf("app1:a:b:%d", n-1)) && adopted(a, "app1:a:b:gone") &&
			adopted(a, "app1:a:b:moved")
	})
	migrate := func() move.Migrated {
		t.Helper()
		done, err := move.Migrate(ctx, move.MigrateOptions{From: a.o.Conn, To: b.o.Conn, Names: [2]string{"old", "new"},
			Namespace: from.Namespace(), MaxSkew: 50 * time.Millisecond, Wait: time.Minute})
		if err != nil || !done.Open || done.MissingN > 0 {
			t.Fatalf("%+v, %v", done, err)
		}
		return done
	}
	if done := migrate(); done.Claimed+done.Reported+done.Soon > 0 {
		t.Errorf("%+v", done)
	}
	if _, err := a.Cancel(ctx, "app1:a:b:gone"); !errors.Is(err, wire.ErrMoved) {
		t.Errorf("the old side cancels a moved notice: %v", err)
	}
	if body := fresh.Get(ctx, "app1:a:b:moved").Val(); body != "first" || !adopted(b, "app1:a:b:moved") {
		t.Errorf("the timer has %q", body)
	}
	set("app1:a:b:again", "second", time.Hour) // on the old side still
	eventually(t, "the timer that was set again is not adopted", func() bool { return adopted(a, "app1:a:b:again") })
	if done := migrate(); done.Moved != 1 {
		t.Errorf("%+v", done)
	}
	if f, err := b.Find(ctx, "app1:a:b:again"); err != nil || string(f.Body) != "second" ||
		fresh.Get(ctx, "app1:a:b:again").Val() != "second" {
		t.Errorf("%+v, %v", f, err)
	}
	if err := fresh.Del(ctx, "app1:a:b:gone").Err(); err != nil {
		t.Fatal(err)
	}
	if err := fresh.Set(ctx, "app1:a:b:moved", "late", time.Second).Err(); err != nil {
		t.Fatal(err)
	}
	if got := h.await(t, "app1:a:b:moved"); string(got.Body) != "late" {
		t.Errorf("%q", got.Body)
	}
	eventually(t, "all come", func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return len(h.all) == 2*n+1
	})
	eventually(t, "the deleted timer's notice is not cancelled", func() bool {
		f, err := b.Find(ctx, "app1:a:b:gone")
		return err == nil && f.State == notice.Cancelled
	})
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range n {
		list := h.all[fmt.Sprintf("app1:a:b:%d", i)]
		if len(list) != 1 || string(list[0].Body) != fmt.Sprint("body ", i) {
			t.Errorf("%d: %d times, %v", i, len(list), list)
		}
		if list := h.all[fmt.Sprintf("app2:a:b:%d", i)]; len(list) != 1 {
			t.Errorf("app2 %d came %d times", i, len(list))
		}
	}
	for _, prefix := range []string{"app1", "app2"} {
		if left := old.HLen(ctx, a.store.Space().Records(keys.Partition{Prefix: prefix})).Val(); left != 0 {
			t.Errorf("%d records of %s are on the old side", left, prefix)
		}
	}
}
