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
	"notifier/internal/layout"
	"notifier/internal/store"
)

// A migration that is killed at any of its steps, before it or right after it, is
// finished by the next one, and each notice is kept once, in the state that it had, on
// the new side.
func TestAMigrationIsKilledAtEachStep(t *testing.T) {
	t.Parallel()
	const atOnce = 6 // of those that wait, rather than work
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

// While an instance lives that does not tell of places, nothing is changed.
func TestReshardIsRefusedBesideTheVersionBefore(t *testing.T) {
	t.Parallel()
	srv, conn, more := open(t)
	s := more()
	if _, err := fleet.NewStore(s.Layout).Beat(t.Context(), fleet.Beat{ID: "abcdefghijkl", About: `{"label":"old","version":"v1"}`, Figures: `{"since":1}`}); err != nil {
		t.Fatal(err)
	}
	_, err := reshard(t, srv, conn, 2)
	if !errors.Is(err, ErrRefused) {
		t.Fatalf("%v", err)
	}
	if now := more().Space(); now.Places() != 1 {
		t.Errorf("%+v", now)
	}
	got, err := Reshard(t.Context(), Options{Conn: conn, Namespace: srv.Namespace(), To: 2, Force: true, Say: func(string) {}, OnMoved: func(int, int64) {}})
	if err != nil || !got.Changed || len(got.Silent) != 1 {
		t.Errorf("%+v, %v", got, err)
	}
}

// What would mix up notices of several Redis is refused, and changes nothing.
func TestMigrationsThatAreRefused(t *testing.T) {
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
	refused(migration(t, empty, b), "no instance has begun")
	if _, err := fresh.Schedule(ctx, keys.Partition{Prefix: prefix}, []store.Request{{Key: "app1:a:b:own"}}); err != nil {
		t.Fatal(err)
	}
	refused(migration(t, a, b), "notices of its own")
	if old.Side().State != layout.SideOpen {
		t.Error(old.Side())
	}
	if _, _, err := fresh.Forget(ctx, keys.Partition{Prefix: prefix}, []string{"app1:a:b:own"}); err != nil {
		t.Fatal(err)
	}
	if _, err := fresh.Amend(ctx, prefix, "app1:a:b:own", store.Cancel, store.When{}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := fresh.Forget(ctx, keys.Partition{Prefix: prefix}, []string{"app1:a:b:own"}); err != nil {
		t.Fatal(err)
	}
	// Nobody lives on the new side; then it is prepared.
	refused(migration(t, a, empty), "no instance lives there")
	other := empty.store(t, 0)
	if other.Side().State != layout.SideComing || old.Side().State != layout.SideOpen {
		t.Errorf("%v, %v", other.Side(), old.Side())
	}
	if other.Space().Now().Shards != 2 {
		t.Errorf("%d shards, want as many as on the old side", other.Space().Now().Shards)
	}
	empty.alive(t, other)
	m := newMigrator(migration(t, a, empty))
	m.step = func(name string, do func() error) error {
		if name == "left" {
			return errKilled
		}
		return do()
	}
	if _, err := m.migrate(ctx); !errors.Is(err, errKilled) {
		t.Fatal(err)
	}
	refused(migration(t, a, b), "another Redis than new")
	refused(migration(t, empty, b), "from another Redis")
	if _, err := reshard(t, a.srv, a.conn, 4); !errors.Is(err, ErrRefused) {
		t.Errorf("a reshard amid a migration: %v", err)
	}
	// Half of the way it turns round.
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
	// An instance of the version before lives on the old side.
	if _, err := fleet.NewStore(old.Layout).Beat(ctx, fleet.Beat{ID: "abcdefghijkm", About: `{"label":"old","version":"v1"}`, Figures: `{"since":1,"places":1}`}); err != nil {
		t.Fatal(err)
	}
	refused(migration(t, a, empty), "version that knows nothing")
}
