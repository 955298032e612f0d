package engine

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"notifier/internal/keys"
	"notifier/internal/move"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/seal"
	"notifier/internal/store"
	"notifier/internal/testkit"
	"notifier/internal/vault"
	"notifier/internal/wire"
)

// movedSealed are sealed notices that move: 20 pending ones of two audiences, and a dead letter. The audience gone is forgotten.
type movedSealed struct {
	h    *sink
	dies atomic.Bool
	at   time.Time
}

const pendingSealed = 20

func audienceOf(i int) string { return []string{"m_1", "m_2"}[i%2] }

func newMovedSealed(t *testing.T) *movedSealed {
	t.Helper()
	x := &movedSealed{h: newSink(10 * pendingSealed)}
	x.h.answer = func(n *notice.Notice) notice.Result {
		if string(n.Body) != card {
			t.Errorf("the handler got %q", n.Body)
		}
		if x.dies.Load() {
			return notice.DeadResult(notice.ReasonStatus4xx, card)
		}
		return notice.DeliveredResult(200)
	}
	return x
}

func (x *movedSealed) start(t *testing.T, srv *testkit.Redis, scope seal.Scope) *world {
	t.Helper()
	return start(t, srv, x.h, func(o *Options) {
		o.SealKeys, o.KeyAge, o.Logger, o.Space.Shards = testkit.ServiceKeys(t, "k"), forgottenAge, zap.NewNop(), 2
	}, sealedRoute(scope))
}

func (x *movedSealed) fill(t *testing.T, w *world, scope seal.Scope) {
	t.Helper()
	for i := range pendingSealed {
		w.scheduleSealed(t, sealedFor(audienceOf(i), i, time.Hour))
	}
	x.dies.Store(true)
	w.scheduleSealed(t, sealedFor("m_1", 100, 0))
	w.until(t, key(100), notice.Dead)
	x.dies.Store(false)
	if scope == seal.PerAudience {
		w.scheduleSealed(t, sealedFor("gone", 101, time.Hour))
		x.at = w.forget(t, "gone").At
	}
}

// check fails unless w has all notices, opens them and delivers them, and unless the forgotten audience is still forgotten.
func (x *movedSealed) check(t *testing.T, w *world, scope seal.Scope) {
	t.Helper()
	for i := range pendingSealed {
		again, err := w.Schedule(t.Context(), sealedFor(audienceOf(i), i, time.Hour))
		if err != nil || again.Created || len(again.Differs) > 0 {
			t.Errorf("%s: the same call again: %+v, %v", key(i), again, err)
		}
		if i == 0 {
			continue // is kept for later
		}
		if _, err := w.Fire(t.Context(), key(i)); err != nil {
			t.Error(err)
		}
		if f := w.until(t, key(i), notice.Delivered); f.AttemptsMade != 1 {
			t.Errorf("%s has made %d attempts", key(i), f.AttemptsMade)
		}
	}
	dead := w.until(t, key(100), notice.Dead)
	if w.Open(t.Context(), &dead); string(dead.Body) != card || dead.Attempts[0].Response != card {
		t.Errorf("the dead letter opens to %q and %q", dead.Body, dead.Attempts[0].Response)
	}
	if scope != seal.PerAudience {
		return
	}
	if _, err := w.Schedule(t.Context(), sealedFor("gone", 102, time.Hour)); !vault.ForgottenAt(err).Equal(x.at) {
		t.Errorf("an audience that was forgotten at %s: %v", x.at, err)
	}
	w.forget(t, audienceOf(0))
	f, err := w.Find(t.Context(), key(0))
	if err != nil {
		t.Fatal(err)
	}
	if w.Open(t.Context(), &f); f.Forgotten.IsZero() || f.State != notice.Cancelled {
		t.Errorf("after a forget: %s, forgotten at %s", f.State, f.Forgotten)
	}
	w.unreadable(t, audienceOf(0))
}

// unreadable fails if a place has keys of an audience.
func (w *world) unreadable(t *testing.T, audience string) {
	t.Helper()
	of := string(seal.AudienceSubject(audience))
	space := w.store.Space()
	for place := range space.Places() {
		for name, value := range w.srv.Client().HGetAll(t.Context(), space.Seals(place)).Val() {
			if name == of || seal.IsKeyID(name) && strings.HasPrefix(value, of+" ") {
				t.Errorf("place %d has the field %s", place, name)
			}
		}
	}
}

func TestReshardOfSealedNotices(t *testing.T) {
	t.Parallel()
	for _, scope := range []seal.Scope{seal.PerRoute, seal.PerAudience, seal.PerID} {
		t.Run(string(scope), func(t *testing.T) {
			t.Parallel()
			x, srv := newMovedSealed(t), testkit.SharedRedis(t)
			w := x.start(t, srv, scope)
			x.start(t, srv, scope)
			x.fill(t, w, scope)
			for _, to := range []int{3, 1} {
				done, err := move.Reshard(t.Context(), move.Options{Conn: w.o.Conn, Namespace: srv.Namespace(), To: to})
				if err != nil || done.Held > 0 {
					t.Fatalf("%+v, %v", done, err)
				}
			}
			x.check(t, w, scope)
		})
	}
}

func TestMigrateOfSealedNotices(t *testing.T) {
	t.Parallel()
	for _, scope := range []seal.Scope{seal.PerRoute, seal.PerAudience, seal.PerID} {
		t.Run(string(scope), func(t *testing.T) {
			t.Parallel()
			x := newMovedSealed(t)
			a := x.start(t, testkit.StartRedis(t), scope)
			b := x.start(t, testkit.StartRedis(t), scope)
			x.fill(t, a, scope)
			way := move.MigrateOptions{From: a.o.Conn, To: b.o.Conn, Names: [2]string{"old", "new"}, Namespace: a.srv.Namespace(),
				MaxSkew: 50 * time.Millisecond, Wait: 20 * time.Second}
			if done, err := move.Migrate(t.Context(), way); err != nil || !done.Open || done.MissingN > 0 {
				t.Fatalf("%+v, %v", done, err)
			}
			for place := range a.store.Space().Places() {
				if n := a.srv.Client().Exists(t.Context(), a.store.Space().Seals(place)).Val(); n > 0 {
					t.Errorf("the old side has the keys of place %d still", place)
				}
			}
			way.From, way.To, way.Names = way.To, way.From, [2]string{"new", "old"}
			if done, err := move.Migrate(t.Context(), way); err != nil || !done.Open || done.MissingN > 0 {
				t.Fatalf("back: %+v, %v", done, err)
			}
			x.check(t, a, scope)
		})
	}
}

// Held notices of ordered sequences keep their texts, their order and their hold in a move, and are sent when their receiver resumes.
func TestHeldSealedSequencesMove(t *testing.T) {
	t.Parallel()
	const ids = 5
	for _, migrates := range []bool{false, true} {
		t.Run(fmt.Sprintf("migrate %t", migrates), func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			var sent []string
			h := newSink(100)
			h.answer = func(n *notice.Notice) notice.Result {
				mu.Lock()
				defer mu.Unlock()
				sent = append(sent, n.Key+" "+string(n.Body))
				return notice.DeliveredResult(200)
			}
			begin := func(srv *testkit.Redis) *world {
				r := sealedRoute(seal.PerAudience)
				r.Order = route.OrderSkip
				return start(t, srv, h, func(o *Options) {
					o.SealKeys, o.KeyAge, o.Logger, o.Space.Shards = testkit.ServiceKeys(t, "k"), forgottenAge, zap.NewNop(), 2
				}, r)
			}
			a := begin(testkit.StartRedis(t))
			b := a
			shop := a.paused(t, "shop.example")
			var want []string
			for i := range ids {
				for _, kind := range []string{"paid", "closed"} {
					r := sealedFor(audienceOf(i), i, 0)
					r.Key = fmt.Sprintf("app1:trans:%s:%d", kind, i)
					a.scheduleSealed(t, r)
					want = append(want, r.Key+" "+card)
				}
			}
			eventually(t, "the first of each sequence is held", func() bool { return a.heldNow(t, shop) == ids })

			if migrates {
				b = begin(testkit.StartRedis(t))
				way := move.MigrateOptions{From: a.o.Conn, To: b.o.Conn, Names: [2]string{"old", "new"}, Namespace: a.srv.Namespace(),
					MaxSkew: 50 * time.Millisecond, Wait: 20 * time.Second}
				if done, err := move.Migrate(t.Context(), way); err != nil || !done.Open || done.MissingN > 0 {
					t.Fatalf("%+v, %v", done, err)
				}
			} else if done, err := move.Reshard(t.Context(), move.Options{Conn: a.o.Conn, Namespace: a.srv.Namespace(), To: 3}); err != nil ||
				done.Held > 0 {
				t.Fatalf("%+v, %v", done, err)
			}
			if got := len(h.seen); got > 0 {
				t.Errorf("%d sent while their receiver is paused", got)
			}
			if ok, err := b.ResumeReceiver(t.Context(), shop, 0); err != nil || !ok {
				t.Fatal(ok, err)
			}
			for _, line := range want {
				key, _, _ := strings.Cut(line, " ")
				b.until(t, key, notice.Delivered)
			}

			mu.Lock()
			defer mu.Unlock()
			for i := range ids {
				first, second := slices.Index(sent, want[2*i]), slices.Index(sent, want[2*i+1])
				if first < 0 || second < first {
					t.Errorf("%q before %q: sent %q", want[2*i], want[2*i+1], sent)
				}
			}
			if len(sent) != len(want) {
				t.Errorf("sent %q", sent)
			}
		})
	}
}

// Each side of a migration has keys, and the command reaches one of them only.
func TestForgetIsRefusedDuringAMigration(t *testing.T) {
	t.Parallel()
	srv := testkit.SharedRedis(t)
	w := startSealing(t, srv, newSink(1), seal.PerAudience)
	w.scheduleSealed(t, sealedFor("m_1", 1, time.Hour))
	side := w.store.Layout.Side()
	if _, err := w.store.Layout.SetSide(t.Context(), side, store.Side{State: store.SideLeaving, ID: "m", Other: "other"}); err != nil {
		t.Fatal(err)
	}
	if err := w.store.Layout.Learn(t.Context()); err != nil {
		t.Fatal(err)
	}

	if _, err := w.ForgetSubject(t.Context(), seal.AudienceSubject("m_1"), ""); !errors.Is(err, wire.ErrMoved) {
		t.Errorf("forget: %v", err)
	}
	if _, err := w.LiftSubject(t.Context(), seal.AudienceSubject("m_1")); !errors.Is(err, wire.ErrMoved) {
		t.Errorf("lift: %v", err)
	}
}

// The instance has not read the new shards yet, but another one has, and has stored keys there.
func TestForgetReachesShardsThatAReshardMakesMeanwhile(t *testing.T) {
	t.Parallel()
	srv := testkit.SharedRedis(t)
	w := startSealing(t, srv, newSink(1), seal.PerAudience)
	w.scheduleSealed(t, sealedFor("m_1", 1, time.Hour))
	place := w.unknownShard(t)

	if _, err := w.ForgetSubject(t.Context(), seal.AudienceSubject("m_1"), ""); err != nil {
		t.Fatal(err)
	}
	if n := w.store.Space().Places(); n <= place {
		t.Errorf("the instance knows %d places", n)
	}
	w.unreadable(t, "m_1")
}

// unknownShard makes another shard current, with the keys of the first notice's shard, as another instance's reshard does. It returns the
// place of it.
func (w *world) unknownShard(t *testing.T) int {
	t.Helper()
	space := w.store.Space().Now()
	next := space.Replace(1, false)
	place := next.First()
	c := w.srv.Client()
	for name, value := range c.HGetAll(t.Context(), space.Seals(space.Shard(key(1)))).Val() {
		if err := c.HSet(t.Context(), next.Seals(place), name, value).Err(); err != nil {
			t.Fatal(err)
		}
	}
	err := c.HSet(t.Context(), next.Meta(), "shards", next.Shards, "tags", strings.Join(next.Tags, ","),
		"former", strings.Join(next.Former, ","), "replaced", keys.JoinCounts(next.Replaced)).Err()
	if err != nil {
		t.Fatal(err)
	}
	return place
}

// The mark of a shard that the instance did not know would refuse notices for ever.
func TestLiftReachesShardsThatAReshardMakesMeanwhile(t *testing.T) {
	t.Parallel()
	srv := testkit.SharedRedis(t)
	w := startSealing(t, srv, newSink(1), seal.PerAudience)
	w.scheduleSealed(t, sealedFor("m_1", 1, time.Hour))
	of := seal.AudienceSubject("m_1")
	if _, err := w.ForgetSubject(t.Context(), of, ""); err != nil {
		t.Fatal(err)
	}
	place := w.unknownShard(t)
	if was, err := w.LiftSubject(t.Context(), of); err != nil || !was {
		t.Fatal(was, err)
	}
	if n := w.store.Space().Places(); n <= place {
		t.Errorf("the instance knows %d places", n)
	}
	for place := range w.store.Space().Places() {
		name := w.store.Space().Seals(place)
		if has, err := srv.Client().HExists(t.Context(), name, vault.Mark(string(of))).Result(); err != nil || has {
			t.Errorf("place %d still has the mark: %t, %v", place, has, err)
		}
	}
}
