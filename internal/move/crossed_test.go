package move

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"notifier/internal/intake"
	"notifier/internal/keys"
	"notifier/internal/store"
	"notifier/internal/testkit"
	"notifier/internal/wire"
)

// A paused instance receives the expired event of a notice that has been delivered and moved. The old
// side must not take the event for that of a plain timer, and create a second notice without a body.
// When the old side accepts calls again, it deletes its list of moved notices.
func TestMovedNoticeIsNotUnknown(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	a, b, old, fresh := two(t, 3)
	const delivered, never = "app1:a:b:delivered", "app1:a:b:never"
	p := old.Space().Partition(prefix, delivered)
	if _, err := old.Store.Schedule(ctx, p, []store.Request{{Key: delivered}}); err != nil {
		t.Fatal(err)
	}
	c, err := old.Store.ClaimKeys(ctx, p, store.Lease{Token: "t", For: time.Minute}, []string{delivered})
	if err != nil || len(c.Won) != 1 {
		t.Fatal(c, err)
	}
	if _, err := old.Store.Settle(ctx, p, []store.Settlement{{Claim: c.Won[0], Ending: store.EndDelivered}}); err != nil {
		t.Fatal(err)
	}

	if done, err := Migrate(ctx, migration(t, a, b)); err != nil || !done.Open {
		t.Fatalf("%+v, %v", done, err)
	}
	unknown := func(s Redis, key string) bool {
		t.Helper()
		none, _, err := intake.Redis{Store: s.Store}.Unknown(ctx, s.Space().Partition(prefix, key), []string{key}, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		return slices.Contains(none, key)
	}
	if unknown(old, delivered) || unknown(fresh, delivered) || !unknown(old, never) {
		t.Errorf("unknown: on the old side %t, on the new side %t; a key that was never used: %t",
			unknown(old, delivered), unknown(fresh, delivered), unknown(old, never))
	}
	if done, err := Migrate(ctx, migration(t, b, a)); err != nil || !done.Open {
		t.Fatalf("%+v, %v", done, err)
	}
	for place := range old.Space().Places() {
		if n := a.srv.Client().Exists(ctx, old.Space().Crossed(place)).Val(); n > 0 {
			t.Errorf("shard %d of the open side still lists moved notices", place)
		}
	}
	if unknown(fresh, delivered) {
		t.Error("the notice is unknown on the side that it left last")
	}
}

// If the user of the new Redis has no rights on timers, the timers are lost. The notices wait for the
// sweep.
func TestMigrateWithoutRightsOnTimers(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	a := newSide(t, "")
	srv := testkit.StartRedis(t)
	if err := srv.Client().ACLSetUser(ctx, "svc", "on", ">password", "~"+a.ns+":*", "&*", "+@all").Err(); err != nil {
		t.Fatal(err)
	}
	conn, err := wire.Open(wire.Address{URL: "redis://svc:password@" + srv.Addr() + "/0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	b := &side{srv: srv, conn: conn, ns: a.ns}
	old, fresh := a.store(t, 2), b.store(t, 1)
	a.alive(t, old)
	b.alive(t, fresh)
	for i := range 5 {
		r := store.Request{Key: fmt.Sprintf("app1:a:b:%d", i), Delay: time.Hour}
		if _, err := old.Store.Schedule(ctx, old.Space().Partition(prefix, r.Key), []store.Request{r}); err != nil {
			t.Fatal(err)
		}
	}
	if done, err := Migrate(ctx, migration(t, a, b)); err != nil || !done.Open || done.Moved != 5 {
		t.Fatalf("%+v, %v", done, err)
	}
	p := keys.Partition{Prefix: prefix}
	list := srv.Client().ZRangeWithScores(ctx, fresh.Space().Shadow(p), 0, -1).Val()
	if n := srv.Client().HLen(ctx, fresh.Space().Records(p)).Val(); len(list) != 5 || n != 5 {
		t.Fatalf("%d pending notices, %d records", len(list), n)
	}
	for _, z := range list {
		if z.Score == math.Trunc(z.Score) {
			t.Errorf("the score of %v says that it has a timer", z.Member)
		}
	}
}

// A full Redis can be the reason for a migration. It only cannot store the list of moved notices.
func TestMigrateLeavesFullRedis(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	srv := testkit.StartRedis(t)
	conn, err := wire.Open(wire.Address{URL: srv.URL()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	a := &side{srv: srv, conn: conn, ns: srv.Namespace()}
	b := newSide(t, a.ns)
	old, fresh := a.store(t, 2), b.store(t, 1)
	a.alive(t, old)
	b.alive(t, fresh)
	r := store.Request{Key: "app1:a:b:1", Delay: time.Hour}
	if _, err := old.Store.Schedule(ctx, old.Space().Partition(prefix, r.Key), []store.Request{r}); err != nil {
		t.Fatal(err)
	}

	m := newMigrator(migration(t, a, b))
	m.hook = hook(func(name string, do func() error) error {
		err := do()
		if name == string(store.SideLeft) && err == nil {
			err = srv.Client().ConfigSet(ctx, "maxmemory", "1").Err()
		}
		return err
	})
	done, err := m.migrate(ctx)
	if err != nil || !done.Open || done.Moved != 1 {
		t.Fatalf("%+v, %v", done, err)
	}
}
