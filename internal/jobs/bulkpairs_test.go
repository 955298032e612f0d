package jobs

import (
	"strings"
	"testing"
	"time"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/store"
	"notifier/internal/testkit"
)

// A cancel takes held notices off the list, and the successors of a cancelled notice go on.
func TestCancelReleasesSequencesAndHeldNotices(t *testing.T) {
	t.Parallel()
	w := newRedirectWorld(t, 1)
	ctx := t.Context()
	if err := w.s.Wire().Redis.SAdd(ctx, w.s.Space().Base(0)+"ordered", prefix).Err(); err != nil {
		t.Fatal(err)
	}
	p, ks := keys.Partition{Prefix: prefix}, []string{"app1:a:b:S", "app1:a:b:S~1"}
	for i, k := range ks {
		url := []string{address(0), "https://new.example/"}[i]
		if _, err := w.s.Schedule(ctx, p, []store.Request{{Key: k, Content: notice.Content{URL: url}}}); err != nil {
			t.Fatal(err)
		}
	}
	claim := func(token string) store.Claimed {
		t.Helper()
		got, err := w.s.ClaimKeys(ctx, p, store.Lease{Token: token, For: time.Minute}, ks)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	first := claim("t0")
	if len(first.Won) != 1 || first.Parked != 1 {
		t.Fatalf("%+v", first)
	}
	w.hold(first.Won[0], pausedOld)
	r := w.startBulk(KindCancel, Rule{Prefix: "app1", Host: "old.example"}, Filter{Rate: 50})
	if drive(ctx, w.driver()); w.read(r.ID).State != Done || w.read(r.ID).Redirected != 1 {
		t.Fatalf("%+v", w.read(r.ID))
	}
	if got := w.held(); len(got) > 0 {
		t.Errorf("held are %q", got)
	}
	if got := claim("t1"); len(got.Won) != 1 || got.Won[0].Key != ks[1] {
		t.Errorf("the successor is not claimed: %+v", got)
	}
}

// A migration ends a bulk change, and changes nothing.
func TestMigrationEndsBulkChange(t *testing.T) {
	t.Parallel()
	w := newRedirectWorld(t, 1)
	w.put(1, address(1))
	r := w.startBulk(KindCancel, Rule{Prefix: "app1"}, Filter{})
	if _, err := w.s.Layout.SetSide(t.Context(), w.s.Layout.Side(), store.Side{State: store.SideLeaving, ID: "m", Other: "x"}); err != nil {
		t.Fatal(err)
	}
	if drive(t.Context(), w.driver()); w.read(r.ID).State != Failed || w.read(r.ID).Redirected != 0 || w.find(1).State != notice.Scheduled {
		t.Errorf("%+v", w.read(r.ID))
	}
}

// Whoever makes room in a full Redis needs them.
func TestCancelAndPurgeWorkInFullRedis(t *testing.T) {
	t.Parallel()
	srv := testkit.StartRedis(t)
	w := redirectWorldOn(t, srv, 1)
	if err := w.s.Wire().Detect(t.Context()); err != nil { // Redis 7 runs scripts that need little memory although it is full
		t.Fatal(err)
	}
	for i := range 6 {
		w.put(i, address(i))
	}

	for i := range 3 {
		w.kill(i)
	}

	cancel, purge := w.startBulk(KindCancel, Rule{Prefix: "app1"}, Filter{}), w.startBulk(KindPurge, Rule{Prefix: "app1"}, Filter{})
	if err := srv.Client().ConfigSet(t.Context(), "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := w.s.Schedule(t.Context(), keys.Partition{Prefix: prefix}, []store.Request{{Key: key(9)}}); err == nil {
		t.Fatal("Redis is not full")
	}

	for range 2 {
		drive(t.Context(), w.driver())
	}

	for _, r := range []*Job{cancel, purge} {
		if got := w.read(r.ID); got.State != Done || got.Redirected != 3 {
			t.Errorf("%s: %+v", r.Kind, got)
		}
	}
	if got := w.states(6); got != "cccccc" {
		t.Errorf("states %s", got)
	}
}

// A cancel finds each notice once, although a reshard begins, moves notices past it and ends meanwhile.
func TestCancelDuringReshard(t *testing.T) {
	t.Parallel()
	w := newRedirectWorld(t, 1)
	const some = 30
	for i := range some {
		w.put(i, address(i))
	}

	r := w.startBulk(KindCancel, Rule{Prefix: "app1"}, Filter{})
	mover, step, d := EraseStore{w.s.Store}, 0, w.driver()
	d.between = func() {
		switch step++; step {
		case 1:
			mover.reshard(t, 3)
			for i := range some / 2 {
				mover.export(t, key(i))
				mover.imports(t)
			}
			mover.export(t, key(some/2)) // on its way while the other shards are read
		case 5:
			mover.imports(t)
			mover.move(t)
			if left, err := w.s.Layout.Drained(t.Context(), nil); left != 0 || err != nil {
				t.Errorf("%d shards are not empty, %v", left, err)
			}
		}
	}
	if drive(t.Context(), d); w.read(r.ID).State != Done || w.read(r.ID).Redirected != some {
		t.Errorf("%+v", w.read(r.ID))
	}
	if got := w.states(some); got != strings.Repeat("c", some) {
		t.Errorf("states %s", got)
	}
}

// On a route with ORDER_DEAD=block a purge releases the successor of a dead letter, and a redriven one goes before it.
func TestBulkChangesOfBlockingDeadLetters(t *testing.T) {
	t.Parallel()
	for kind, next := range map[string]string{KindPurge: "app1:a:b:1~1", KindRedrive: "app1:a:b:1"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w := newRedirectWorld(t, 1)
			ctx, p := t.Context(), keys.Partition{Prefix: prefix}
			if err := w.s.Wire().Redis.SAdd(ctx, w.s.Space().Base(0)+"ordered", prefix, prefix+"!").Err(); err != nil {
				t.Fatal(err)
			}

			w.put(1, address(1))
			w.kill(1)
			ks := []string{"app1:a:b:1", "app1:a:b:1~1"}
			if _, err := w.s.Schedule(ctx, p, []store.Request{{Key: ks[1], Content: notice.Content{URL: address(2)}}}); err != nil {
				t.Fatal(err)
			}
			claim := func(token string) store.Claimed {
				t.Helper()
				got, err := w.s.ClaimKeys(ctx, p, store.Lease{Token: token, For: time.Minute}, ks)
				if err != nil {
					t.Fatal(err)
				}
				return got
			}
			if got := claim("t0"); len(got.Won) > 0 || got.Parked != 1 {
				t.Fatalf("the dead letter does not block: %+v", got)
			}

			r := w.startBulk(kind, Rule{Prefix: "app1"}, Filter{})
			if drive(ctx, w.driver()); w.read(r.ID).State != Done || w.read(r.ID).Redirected != 1 {
				t.Errorf("%+v", w.read(r.ID))
			}
			if got := claim("t1"); len(got.Won) != 1 || got.Won[0].Key != next {
				t.Errorf("claimed %+v, want %s", got, next)
			}
		})
	}
}
