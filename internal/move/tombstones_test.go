package move

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/store"
	"notifier/internal/testkit"
	"notifier/internal/wire"
)

// burying returns a Redis that retains no settled notice and keeps tombstones.
func burying(t *testing.T, srv *testkit.Redis, conn *wire.Conn, namespace string) Redis {
	t.Helper()
	space, _, err := store.Discover(t.Context(), conn, keys.Space{Namespace: namespace, Shards: 2}, false)
	if err != nil {
		t.Fatal(err)
	}
	s := On(store.New(store.Options{Client: conn.Commander, Space: space, Prefixes: []string{prefix}, Retention: time.Hour,
		RepeatWindow: time.Hour, RepeatBytes: 1 << 20}))
	if err := s.Layout.Learn(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

func request(i int) store.Request {
	return store.Request{Key: fmt.Sprintf("app1:a:b:%d", i), Content: notice.Content{Body: []byte("1")}}
}

// bury delivers and trims n notices, from one number on, and returns their ids.
func bury(t *testing.T, s Redis, from, n int) (ids map[int]string) {
	t.Helper()
	ids = map[int]string{}
	for i := from; i < from+n; i++ {
		ids[i] = deliver(t, s, request(i))
	}
	trim(t, s)
	return ids
}

// deliver schedules and delivers a notice, and returns its id.
func deliver(t *testing.T, s Redis, r store.Request) string {
	t.Helper()
	p := s.Space().Partition(prefix, r.Key)
	reply, err := s.Store.Schedule(t.Context(), p, []store.Request{r})
	if err != nil || !reply[0].Created {
		t.Fatal(reply, err)
	}
	c, err := s.Store.ClaimKeys(t.Context(), p, store.Lease{Token: "t", For: time.Minute}, []string{r.Key})
	if err != nil || len(c.Won) != 1 {
		t.Fatal(c, err)
	}
	if _, err := s.Store.Settle(t.Context(), p, []store.Settlement{{Claim: c.Won[0], Ending: store.EndDelivered}}); err != nil {
		t.Fatal(err)
	}
	return reply[0].ID()
}

// trim trims all settled notices.
func trim(t *testing.T, s Redis) {
	t.Helper()
	for place := range s.Space().Places() {
		if _, _, err := s.Store.Trim(t.Context(), place, []store.Trim{{Prefix: prefix}}, 1000); err != nil {
			t.Fatal(err)
		}
	}
}

// recognises fails unless a repeated schedule call for each notice returns the id of the first.
func recognises(t *testing.T, s Redis, ids map[int]string, when string) {
	t.Helper()
	for i, id := range ids {
		r := request(i)
		got, err := s.Store.Schedule(t.Context(), s.Space().Partition(prefix, r.Key), []store.Request{r})
		if err != nil || got[0].Err != nil || got[0].Created || got[0].State != notice.Settled || got[0].ID() != id {
			t.Fatalf("%s: %s: %+v, %v", when, r.Key, got, err)
		}
	}
}

func TestReshardMovesTombstones(t *testing.T) {
	t.Parallel()
	srv, conn, more := open(t)
	s := burying(t, srv, conn, srv.Namespace())
	ids := bury(t, s, 0, 40)
	if err := s.Layout.Spread(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Layout.Announce(t.Context(), s.Space().Replace(5, false)); err != nil {
		t.Fatal(err)
	}
	recognises(t, s, ids, "before the move")
	mover := &Mover{From: s, To: s}
	if _, err := mover.Pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	recognises(t, s, ids, "after the move")
	if left := s.Layout.OldShards(); len(left) != 0 {
		t.Errorf("old shards %v are still open", left)
	}
	for place := range s.Space().First() {
		if sizes, err := s.buckets(t.Context(), place); err != nil || len(sizes) != 0 {
			t.Errorf("place %d: %v, %v", place, sizes, err)
		}
	}
	// Another instance, and a second reshard over tombstones in several places.
	other := more()
	recognises(t, other, ids, "another instance")
	if got, err := reshard(t, srv, conn, 3); err != nil || !got.Changed {
		t.Fatalf("%+v, %v", got, err)
	}
	recognises(t, more(), ids, "after the second reshard")
}

// A mover that is killed between copying tombstones and deleting them loses none.
func TestKilledReshardKeepsTombstones(t *testing.T) {
	t.Parallel()
	srv, conn, _ := open(t)
	s := burying(t, srv, conn, srv.Namespace())
	ids := bury(t, s, 0, 40)
	if err := s.Layout.Spread(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Layout.Announce(t.Context(), s.Space().Replace(3, false)); err != nil {
		t.Fatal(err)
	}
	for place := range s.Space().First() {
		sizes, err := s.buckets(t.Context(), place)
		if err != nil {
			t.Fatal(err)
		}
		for bucket := range sizes {
			if err := s.eachTombs(t.Context(), place, bucket, func(some tombs) error {
				return s.importTombs(t.Context(), some)
			}); err != nil {
				t.Fatal(err)
			}
		}
	}
	recognises(t, s, ids, "copied")
	if _, err := (&Mover{From: s, To: s}).Pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	recognises(t, s, ids, "moved")
}

// The new side recognises notices that the old side trimmed before and during the migration, from its
// first call on. The old side does too until it is closed.
func TestMigrateCopiesTombstones(t *testing.T) {
	t.Parallel()
	a, b := newSide(t, ""), (*side)(nil)
	b = newSide(t, a.ns)
	old := burying(t, a.srv, a.conn, a.ns)
	ids := bury(t, old, 0, 40)
	fresh := b.store(t, 3)
	a.alive(t, old)
	b.alive(t, fresh)

	m := newMigrator(migration(t, a, b))
	trimmed := false
	m.hook = hook(func(name string, do func() error) error {
		if name == "export" && !trimmed {
			trimmed = true
			for i, id := range bury(t, old, 100, 5) {
				ids[i] = id
			}
		}
		if name == "left" {
			recognises(t, old, ids, "the old side, before it is closed")
		}
		return do()
	})
	if _, err := old.Store.Schedule(t.Context(), old.Space().Partition(prefix, "app1:a:b:later"),
		[]store.Request{{Key: "app1:a:b:later", Delay: time.Hour}}); err != nil {
		t.Fatal(err)
	}
	if done, err := m.migrate(t.Context()); err != nil || !done.Open || done.Moved != 1 {
		t.Fatalf("%+v, %v", done, err)
	}
	if !trimmed {
		t.Fatal("nothing was trimmed during the migration")
	}
	recognises(t, fresh, ids, "the new side")
	got, err := old.Store.Schedule(t.Context(), old.Space().Partition(prefix, "app1:a:b:0"), []store.Request{request(0)})
	if err == nil && !errors.Is(got[0].Err, wire.ErrMoved) || err != nil && !errors.Is(err, wire.ErrMoved) {
		t.Errorf("the old side after it was closed: %+v, %v", got, err)
	}

	// And back.
	if done, err := Migrate(t.Context(), migration(t, b, a)); err != nil || !done.Open {
		t.Fatalf("%+v, %v", done, err)
	}
	recognises(t, old, ids, "the first side again")
}

// A migration that is killed at any step and turned back keeps all tombstones: those of the old side,
// and those of the new side from the time in which it accepted calls.
func TestTurnedMigrateKeepsTombstones(t *testing.T) {
	steps := turnWithTombstones(t, never)
	if steps < 15 {
		t.Fatalf("a migration takes %d steps", steps)
	}
	for n := 1; n <= steps; n++ {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			turnWithTombstones(t, n)
		})
	}
}

// turnWithTombstones kills a migration after its n-th step and turns it back. It returns the number of
// steps.
func turnWithTombstones(t *testing.T, n int) (steps int) {
	a := newSide(t, "")
	b := newSide(t, a.ns)
	old, fresh := burying(t, a.srv, a.conn, a.ns), burying(t, b.srv, b.conn, b.ns)
	a.alive(t, old)
	b.alive(t, fresh)
	ids := bury(t, old, 0, 12)
	for i := range 3 {
		r := store.Request{Key: fmt.Sprintf("app1:a:b:later%d", i), Delay: time.Hour}
		if _, err := old.Store.Schedule(t.Context(), old.Space().Partition(prefix, r.Key), []store.Request{r}); err != nil {
			t.Fatal(err)
		}
	}
	m := newMigrator(migration(t, a, b))
	m.dies = true
	at := ""
	m.hook = hook(func(name string, do func() error) error {
		if steps++; steps > n {
			return errKilled
		}
		at = name
		return do()
	})
	if _, err := m.migrate(t.Context()); n != never && !errors.Is(err, errKilled) && err != nil {
		t.Fatal(err)
	}
	for _, s := range []Redis{old, fresh} {
		if err := s.Layout.Known(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for i, s := range map[int]Redis{200: old, 300: fresh} {
		if state := s.Layout.Side().State; state == store.SideOpen || state == store.SideOpened || state == "" {
			r := request(i)
			if got, err := s.Store.Schedule(t.Context(), s.Space().Partition(prefix, r.Key), []store.Request{r}); err != nil || got[0].Err != nil {
				continue // this side refuses calls
			}
			for k, id := range bury(t, s, i+1, 3) {
				ids[k] = id
			}
		}
	}
	if n == never {
		return steps
	}
	if done, err := Migrate(t.Context(), migration(t, b, a)); err != nil || !done.Open {
		t.Fatalf("killed at %s, turned: %+v, %v", at, done, err)
	}
	if err := old.Layout.Known(t.Context()); err != nil {
		t.Fatal(err)
	}
	recognises(t, old, ids, "killed at "+at+", turned")
	return steps
}

// A notice is replaced, delivered and trimmed after its bucket was copied. The new side gets the later
// tombstone, although the bucket has the same size.
func TestMigrateCopiesLaterTombstoneOfKey(t *testing.T) {
	t.Parallel()
	a := newSide(t, "")
	b := newSide(t, a.ns)
	old := burying(t, a.srv, a.conn, a.ns)
	ids := bury(t, old, 0, 3)
	fresh := b.store(t, 3)
	a.alive(t, old)
	b.alive(t, fresh)

	m := newMigrator(migration(t, a, b))
	replaced := false
	m.hook = hook(func(name string, do func() error) error {
		if name == "export" && !replaced {
			replaced = true
			again := request(1)
			again.OnDuplicate = store.Replace
			ids[1] = deliver(t, old, again)
			trim(t, old)
		}
		return do()
	})
	if _, err := old.Store.Schedule(t.Context(), old.Space().Partition(prefix, "app1:a:b:later"),
		[]store.Request{{Key: "app1:a:b:later", Delay: time.Hour}}); err != nil {
		t.Fatal(err)
	}
	if done, err := m.migrate(t.Context()); err != nil || !done.Open || !replaced {
		t.Fatalf("%+v, %v, replaced %t", done, err, replaced)
	}
	recognises(t, fresh, ids, "the new side")
}
