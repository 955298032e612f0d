package engine

import (
	"fmt"
	"testing"
	"time"

	"notifier/internal/dispatch"
	"notifier/internal/move"
	"notifier/internal/recur"
	"notifier/internal/testkit"
	"notifier/internal/wire"
)

// ticking defines recurring notices with a tick each second, each of which has an occurrence.
func (w *world) ticking(t *testing.T, n, times int) (list []string) {
	t.Helper()
	for i := range n {
		d := every(fmt.Sprintf("app1:a:b:n%d", i), time.Second)
		d.Times, d.Missed, d.MissedMost = times, recur.MissedAll, 1000
		list = append(list, w.define(t, d).Key)
	}
	return list
}

// consecutive fails unless each definition has had one occurrence for each of its ticks.
func consecutive(t *testing.T, w *world, g *got, list []string, times int) {
	t.Helper()
	for _, key := range list {
		all := occurrences(t, g, key, times)
		for number := 2; number <= times; number++ {
			if gap := all[number].Tick.Sub(all[number-1].Tick); gap != time.Second {
				t.Errorf("%s: %s after the tick of %d is the one of %d", key, gap, number-1, number)
			}
		}
		if x, err := w.Recurrences().Get(t.Context(), key); err != nil || x.Number != times || x.Stored != times {
			t.Errorf("%s: %+v, %v", key, x.State, err)
		}
	}
}

// Recurring notices go on while reshards move them: each tick has one occurrence.
func TestReshardKeepsTicks(t *testing.T) {
	t.Parallel()
	const times = 5
	srv, g := testkit.SharedRedis(t), newGot(1000)
	a := start(t, srv, g, nil, testRoute("r", "app1"))
	b := start(t, srv, g, nil, testRoute("r", "app1"))
	list := a.ticking(t, 20, times)
	for _, to := range []int{5, 3} {
		occurrences(t, g, list[0], 6-to)
		if done, err := move.Reshard(t.Context(), move.Options{Conn: a.o.Conn, Namespace: srv.Namespace(), To: to}); err != nil || !done.Changed {
			t.Fatalf("%+v, %v", done, err)
		}
	}

	consecutive(t, b, g, list, times)
}

// The same for a migration: the old side stores occurrences, and then the new one.
func TestMigrateKeepsTicks(t *testing.T) {
	t.Parallel()
	const times = 5
	from, to, g := testkit.StartRedis(t), testkit.StartRedis(t), newGot(1000)
	a, b := start(t, from, g, nil, testRoute("r", "app1")), start(t, to, g, nil, testRoute("r", "app1"))
	list := a.ticking(t, 20, times)
	occurrences(t, g, list[0], 1)
	done, err := move.Migrate(t.Context(), move.MigrateOptions{From: a.o.Conn, To: b.o.Conn, Names: [2]string{"old", "new"},
		Namespace: from.Namespace(), MaxSkew: 50 * time.Millisecond, Wait: 20 * time.Second})
	if err != nil || !done.Open || done.MissingN > 0 {
		t.Fatalf("%+v, %v", done, err)
	}

	consecutive(t, b, g, list, times)
}

// When another route covers a definition, its ticks go on there with the next number.
func TestDefinitionsFollowTheirRoute(t *testing.T) {
	t.Parallel()
	srv, g := testkit.SharedRedis(t), newGot(100)
	before := start(t, srv, g, nil, testRoute("r", "app1"), testRoute("s", "app1:a"))
	d := every("app1:a:b:n", time.Second)
	d.Times, d.Missed, d.MissedMost = 4, recur.MissedAll, 1000
	before.define(t, d)
	gone := every("app1:a:b:gone", time.Hour)
	gone.Paused = true
	before.define(t, gone)
	if _, err := before.Recurrences().RunNow(t.Context(), gone.Key); err != nil {
		t.Fatal(err)
	}
	if err := before.Recurrences().Delete(t.Context(), gone.Key); err != nil {
		t.Fatal(err)
	}
	occurrences(t, g, d.Key, 1)
	before.stop()
	after := start(t, srv, g, nil, testRoute("r", "app1"))
	after.tidy(t)
	consecutive(t, after, g, []string{d.Key}, 4)
	longer := start(t, srv, g, nil, testRoute("r", "app1"), testRoute("s", "app1:a"))
	after.stop()
	longer.tidy(t)
	p := longer.store.Space().Partition("app1:a", d.Key)
	if n := srv.Client().HLen(t.Context(), longer.store.Space().Recurring(p)).Val(); n != 2 {
		t.Errorf("%d definitions are under the longer prefix, want 2", n)
	}
	if x := longer.define(t, gone); x.Number != 1 {
		t.Errorf("a new definition after the move: %+v", x.State)
	}
}

// In a cluster each definition is in the slot of its shard, also after a reshard.
func TestReshardOfAClusterKeepsTicks(t *testing.T) {
	t.Parallel()
	const times = 4
	srv, _ := testkit.StartCluster(t, 8000)
	g := newGot(1000)
	w := startCluster(t, srv, 4, func(*wire.Conn) dispatch.Handler { return g }, testRoute("r", "app1"))
	list := w.ticking(t, 10, times)
	occurrences(t, g, list[0], 1)
	if done, err := move.Reshard(t.Context(), move.Options{Conn: w.o.Conn, Namespace: "notifier", To: 3}); err != nil || !done.Changed {
		t.Fatalf("%+v, %v", done, err)
	}

	consecutive(t, w, g, list, times)
}
