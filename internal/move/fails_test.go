package move

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/store"
	"notifier/internal/testkit"
	"notifier/internal/wire"
)

// If a migration fails or is interrupted while both sides refuse calls, the old side accepts calls
// again. The next migration finishes.
func TestFailedMigrateReopensOldSide(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"fails", "is interrupted"} {
		t.Run(how, func(t *testing.T) {
			a, b, old, fresh := two(t, 1)
			fill(t, old, 12)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			m := newMigrator(migration(t, a, b))
			m.hook = hook(func(name string, do func() error) error {
				if m.from.Layout.Side().State != store.SideLeft {
					return do()
				}
				if how == "fails" {
					return errors.New("no answer")
				}
				cancel()
				return ctx.Err()
			})
			if done, err := m.migrate(ctx); err == nil || done.Open {
				t.Fatalf("%+v, %v", done, err)
			}
			key := "app1:a:b:after"
			p := old.Space().Partition(prefix, key)
			got, err := old.Store.Schedule(t.Context(), p, []store.Request{{Key: key, Delay: time.Hour}})
			if err != nil || got[0].Err != nil {
				t.Errorf("both sides refuse a call: %+v, %v", got, err)
			}
			if got, err := fresh.Store.Schedule(t.Context(), fresh.Space().Partition(prefix, key), []store.Request{{Key: key}}); err == nil &&
				got[0].Err == nil {
				t.Error("both sides accept a call")
			}
			if done, err := Migrate(t.Context(), migration(t, a, b)); err != nil || !done.Open {
				t.Errorf("%+v, %v", done, err)
			}
			if f, err := fresh.Store.Find(t.Context(), prefix, key); err != nil || f.State != notice.Scheduled {
				t.Errorf("%+v, %v", f, err)
			}
		})
	}
}

// If the new side is full, Migrate fails before it exports another batch. No batch is left on its way,
// where no side would deliver its notices, and the old side accepts calls.
func TestMigrateToFullRedisStops(t *testing.T) {
	t.Parallel()
	const n = 1500
	a := newSide(t, "")
	b := &side{srv: testkit.StartRedis(t), ns: a.ns}
	var err error
	if b.conn, err = wire.Open(wire.Address{URL: b.srv.URL()}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.conn.Close() })
	ctx, old, fresh := t.Context(), a.store(t, 1), b.store(t, 1)
	a.alive(t, old)
	b.alive(t, fresh)
	body := []byte(`"` + strings.Repeat("x", 1000) + `"`)
	p := keys.Partition{Prefix: prefix}
	for i := range n {
		if _, err := old.Store.Schedule(ctx, p, []store.Request{{Key: fmt.Sprintf("app1:a:b:%d", i), Delay: time.Hour,
			Content: notice.Content{Body: body}}}); err != nil {
			t.Fatal(err)
		}
	}
	limit := func(to int64) {
		t.Helper()
		if err := b.srv.Client().ConfigSet(ctx, "maxmemory", fmt.Sprint(to)).Err(); err != nil {
			t.Fatal(err)
		}
	}
	var used int64
	for line := range strings.Lines(b.srv.Client().Info(ctx, "memory").Val()) {
		if text, ok := strings.CutPrefix(line, "used_memory:"); ok {
			if _, err := fmt.Sscan(text, &used); err != nil {
				t.Fatal(err)
			}
		}
	}
	limit(used + 600_000)
	done, err := Migrate(ctx, migration(t, a, b))
	if !errors.Is(err, wire.ErrFull) || !strings.Contains(err.Error(), "the new side") || !done.Begun || done.Open {
		t.Fatalf("%+v, %v", done, err)
	}
	moved, _ := b.total(fresh)
	if left, _ := a.total(old); moved == 0 || left == 0 || left+moved != n {
		t.Errorf("%d moved, %d left", moved, left)
	}
	if some := a.srv.Client().Exists(ctx, old.Space().Moving(0)).Val(); some != 0 {
		t.Error("a batch is on its way, and no side delivers its notices")
	}
	if got, err := old.Store.Schedule(ctx, p, []store.Request{{Key: "app1:a:b:new", Delay: time.Hour}}); err != nil || got[0].Err != nil {
		t.Errorf("the old side refuses calls: %+v, %v", got, err)
	}
	limit(0)
	if done, err := Migrate(ctx, migration(t, a, b)); err != nil || !done.Open || done.MissingN > 0 {
		t.Fatalf("%+v, %v", done, err)
	}
	if moved, pending := b.total(fresh); moved != n+1 || pending != n+1 {
		t.Errorf("%d moved, %d of them pending; want %d", moved, pending, n+1)
	}
}

// slots is the reply of CLUSTER SLOTS of a cluster whose slots are fragmented.
type slots []redis.ClusterSlot

func (h slots) DialHook(next redis.DialHook) redis.DialHook { return next }
func (h slots) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
func (h slots) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(_ context.Context, cmd redis.Cmder) error {
		cmd.(*redis.ClusterSlotsCmd).SetVal(h)
		return nil
	}
}

// An empty cluster gets a shard for each master, not for each range of slots.
func TestMigrateMakesOneShardPerMaster(t *testing.T) {
	t.Parallel()
	var h slots
	for i := range 40 {
		h = append(h, redis.ClusterSlot{Start: 400 * i, End: 400*i + 399, Nodes: []redis.ClusterNode{{Addr: fmt.Sprint("10.0.0.", i%3)},
			{Addr: "10.0.0.9"}}})
	}
	a, b := newSide(t, ""), newSide(t, "")
	b.conn.AddHook(h)
	o := migration(t, a, b)
	o.To = &wire.Conn{Commander: b.conn.Commander,
		Masters: func(context.Context, func(context.Context, redis.Cmdable) error) error { return nil }}
	m := newMigrator(o)
	m.from = a.store(t, 2)
	if n, err := m.shards(t.Context()); n != 3 || err != nil {
		t.Errorf("%d, %v; want 3", n, err)
	}
}

// Migrate is refused while a reshard is unfinished, and its error names the command that finishes it.
// After that command it succeeds.
func TestMigrateDuringReshardIsRefused(t *testing.T) {
	t.Parallel()
	a := newSide(t, "")
	b := newSide(t, a.ns)
	old, fresh := a.store(t, 2), b.store(t, 1)
	b.alive(t, fresh)
	states, claims := fill(t, old, 24)
	if done, err := reshard(t, a.srv, a.conn, 3); err != nil || done.Held != len(claims) {
		t.Fatalf("%+v, %v", done, err)
	}
	_, err := Migrate(t.Context(), migration(t, a, b))
	if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "notifier reshard --to 3") ||
		!strings.Contains(err.Error(), "await a report") {
		t.Errorf("%v", err)
	}
	for _, c := range claims {
		if got, err := old.Store.Settle(t.Context(), c.Partition(), []store.Settlement{{Claim: c, Ending: store.EndDelivered}}); err != nil ||
			got[0].Stale {
			t.Fatalf("%+v, %v", got, err)
		}
	}
	if done, err := reshard(t, a.srv, a.conn, 3); err != nil || done.Held != 0 {
		t.Fatalf("%+v, %v", done, err)
	}
	if done, err := Migrate(t.Context(), migration(t, a, b)); err != nil || !done.Open || done.Moved != len(states) {
		t.Errorf("%+v, %v", done, err)
	}
}

// A plain producer writes notices on the old side under keys of notices that have moved. The next run
// moves a later notice, which replaces the moved one. An earlier notice stays on the old side, and so
// does one whose key is claimed on the new side: both notices of such a key are delivered.
func TestMigrateReplacesEarlierNoticeOfKey(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	a, b, old, fresh := two(t, 1)
	due := time.Now().Add(time.Hour)
	later, earlier, claimed := "app1:a:b:later", "app1:a:b:earlier", "app1:a:b:claimed"
	for _, k := range []string{later, earlier, claimed} {
		if _, err := old.Store.Schedule(ctx, old.Space().Partition(prefix, k), []store.Request{{Key: k, Delay: 2 * time.Hour}}); err != nil {
			t.Fatal(err)
		}
	}
	if done, err := Migrate(ctx, migration(t, a, b)); err != nil || done.Moved != 3 {
		t.Fatalf("%+v, %v", done, err)
	}
	// An attempt of the moved notice is in flight on the new side, so it is not replaced.
	at := fresh.Space().Shard(claimed)
	if err := b.srv.Client().Set(ctx, fresh.Space().ClaimPrefix(at)+claimed, "token", time.Minute).Err(); err != nil {
		t.Fatal(err)
	}
	for k, by := range map[string]int{later: 1, earlier: -1, claimed: 1} { // as an old copy of deploy/schedule.lua does
		f, err := fresh.Store.Find(ctx, prefix, k)
		if err != nil {
			t.Fatal(err)
		}
		p := old.Space().Partition(prefix, k)
		record := fmt.Sprintf(`{"due":%d,"made":%d,"json":"again"}`, due.UnixMilli(), int(f.Made)+by)
		c := a.srv.Client()
		if err := errors.Join(c.HSet(ctx, old.Space().Records(p), k, record).Err(),
			c.ZAdd(ctx, old.Space().Shadow(p), redis.Z{Score: float64(due.UnixMilli()), Member: k}).Err(),
			c.Set(ctx, k, "1", time.Hour).Err()); err != nil {
			t.Fatal(err)
		}
	}
	done, err := Migrate(ctx, migration(t, a, b))
	if err != nil || done.Moved != 1 || done.Both != 2 || done.Claimed+done.Soon > 0 {
		t.Errorf("%+v, %v", done, err)
	}
	if f, err := fresh.Store.Find(ctx, prefix, later); err != nil || string(f.Body) != `"again"` || f.Due.UnixMilli() != due.UnixMilli() {
		t.Errorf("%+v, %v", f, err)
	}
	if at := b.srv.Client().PExpireTime(ctx, later).Val().Milliseconds(); at != due.UnixMilli()-1 {
		t.Errorf("its timer expires at %d, its due time is %d", at, due.UnixMilli())
	}
	for _, k := range []string{earlier, claimed} {
		if f, err := fresh.Store.Find(ctx, prefix, k); err != nil || string(f.Body) != "" {
			t.Errorf("%s: %+v, %v", k, f, err)
		}
	}
	if records, pending := a.total(old); records != 2 || pending != 2 {
		t.Errorf("the old side has %d records, %d pending", records, pending)
	}
}
