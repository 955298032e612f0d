//go:build !quick

package move

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"notifier/internal/fleet"
	"notifier/internal/keys"
	"notifier/internal/store"
)

// A migration that is killed before or after any step is finished by the next one. Each notice is then
// stored once, in its state, on the new side.
func TestKilledMigrateLosesNothing(t *testing.T) {
	t.Parallel()
	const atOnce = 6 // these tests mostly wait
	steps := killMigration(t, never, false)
	if steps < 20 {
		t.Fatalf("a migration takes %d steps", steps)
	}
	var workers sync.WaitGroup
	next := make(chan int)
	for range atOnce {
		workers.Go(func() {
			for n := range next {
				t.Run(fmt.Sprintf("before %d", n), func(t *testing.T) { killMigration(t, n, false) })
				t.Run(fmt.Sprintf("after %d", n), func(t *testing.T) { killMigration(t, n, true) })
			}
		})
	}
	for n := 1; n <= steps; n++ {
		next <- n
	}
	close(next)
	workers.Wait()
}

// An older instance, whose heartbeat has no number of places, prevents a reshard without --force.
func TestReshardRefusesOlderInstances(t *testing.T) {
	t.Parallel()
	srv, conn, more := open(t)
	s := more()
	if _, err := fleet.NewStore(s.Layout).Publish(t.Context(), fleet.Heartbeat{ID: "abcdefghijkl", About: `{"label":"old","version":"v1"}`,
		Figures: `{"since":1}`}); err != nil {
		t.Fatal(err)
	}
	_, err := reshard(t, srv, conn, 2)
	if !errors.Is(err, ErrRefused) {
		t.Fatalf("%v", err)
	}
	if now := more().Space(); now.Places() != 1 {
		t.Errorf("%+v", now)
	}
	got, err := Reshard(t.Context(), Options{Conn: conn, Namespace: srv.Namespace(), To: 2, Force: true})
	if err != nil || !got.Changed || len(got.Silent) != 1 {
		t.Errorf("%+v, %v", got, err)
	}
}

// Migrations that would mix the notices of several Redis servers are refused and change nothing.
func TestMigrateRefusals(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	a, b, old, fresh := two(t, 1)
	fill(t, old, 12)
	refused := func(o MigrateOptions, words string) {
		t.Helper()
		if _, err := Migrate(ctx, o); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), words) {
			t.Errorf("%v; want %q", err, words)
		}
	}
	same := migration(t, a, a)
	refused(same, "another reshard or migration")
	empty := newSide(t, a.ns)
	refused(migration(t, empty, b), "no instance has started")
	if _, err := fresh.Store.Schedule(ctx, keys.Partition{Prefix: prefix}, []store.Request{{Key: "app1:a:b:own"}}); err != nil {
		t.Fatal(err)
	}
	refused(migration(t, a, b), "already has notices")
	if old.Layout.Side().State != store.SideOpen {
		t.Error(old.Layout.Side())
	}
	if _, err := fresh.Store.Amend(ctx, prefix, "app1:a:b:own", store.Cancel, store.When{}); err != nil {
		t.Fatal(err)
	}
	own := keys.Partition{Prefix: prefix}
	if err := fresh.Wire().Redis.Del(ctx, fresh.Space().Records(own), fresh.Space().Settled(own)).Err(); err != nil {
		t.Fatal(err)
	}
	// The new side is prepared, but has no instance.
	refused(migration(t, a, empty), "no instance is alive")
	other := empty.store(t, 0)
	if other.Layout.Side().State != store.SideComing || old.Layout.Side().State != store.SideOpen {
		t.Errorf("%v, %v", other.Layout.Side(), old.Layout.Side())
	}
	if other.Space().Now().Shards != 2 {
		t.Errorf("%d shards, want as many as on the old side", other.Space().Now().Shards)
	}
	empty.alive(t, other)
	// An instance ran there some time ago.
	if err := empty.srv.Client().ZIncrBy(ctx, other.Space().FleetSigns(), -120_000, "abcdefghijkl").Err(); err != nil {
		t.Fatal(err)
	}
	refused(migration(t, a, empty), "no instance is alive")
	empty.alive(t, other)
	m := newMigrator(migration(t, a, empty))
	m.hook = hook(func(name string, do func() error) error {
		if name == "left" {
			return errKilled
		}
		return do()
	})
	if _, err := m.migrate(ctx); !errors.Is(err, errKilled) {
		t.Fatal(err)
	}
	refused(migration(t, a, b), "another Redis than new")
	refused(migration(t, empty, b), "from another Redis")
	if _, err := reshard(t, a.srv, a.conn, 4); !errors.Is(err, ErrRefused) {
		t.Errorf("a reshard during a migration: %v", err)
	}
	// The unfinished migration is turned back.
	b.alive(t, fresh)
	done, err := Migrate(ctx, migration(t, empty, a))
	if err != nil || !done.Open || done.MissingN > 0 {
		t.Fatalf("%+v, %v", done, err)
	}
	if records, _ := empty.total(other); records != 0 {
		t.Errorf("%d records are left", records)
	}
	if records, _ := a.total(old); records != 12 {
		t.Errorf("%d records are back", records)
	}
	// An older instance is alive on the old side.
	if _, err := fleet.NewStore(old.Layout).Publish(ctx, fleet.Heartbeat{ID: "abcdefghijkm", About: `{"label":"old","version":"v1"}`,
		Figures: `{"since":1,"places":1}`}); err != nil {
		t.Fatal(err)
	}
	refused(migration(t, a, empty), "version without support for migrations")
}
