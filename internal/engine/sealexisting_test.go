package engine

import (
	"testing"
	"time"

	"go.uber.org/zap"

	"notifier/internal/callback"
	"notifier/internal/jobs"
	"notifier/internal/move"
	"notifier/internal/notice"
	"notifier/internal/route"
	"notifier/internal/seal"
	"notifier/internal/testkit"
	"notifier/internal/vault"
)

// sealer seals the clear notices of w.
func (w *world) sealer() *jobs.Sealer {
	return &jobs.Sealer{Store: w.store, Routes: w.o.Routes, Vault: vault.New(w.o.SealKeys, w.store.Wire())}
}

// Notices from before the setting: pending, dead, delivered, readdressed and claimed ones.
func TestExistingNoticesAreSealed(t *testing.T) {
	t.Parallel()
	for _, scope := range []seal.Scope{seal.PerRoute, seal.PerAudience, seal.PerID} {
		t.Run(string(scope), func(t *testing.T) {
			t.Parallel()
			m, calls := newMerchant(t, 500), callback.New(callback.Options{})
			t.Cleanup(calls.Close)
			srv := testkit.SharedRedis(t)
			begin := func(scope seal.Scope) *world {
				r := sealedRoute(scope)
				r.Allow, _ = route.ParseAllow("127.0.0.1")
				return start(t, srv, calls, func(o *Options) {
					o.Logger, o.Space.Shards = zap.NewNop(), 2
					if scope != "" {
						o.SealKeys = testkit.ServiceKeys(t, "k")
					}
				}, r)
			}
			old := begin("")
			put := func(i int, delay time.Duration) {
				t.Helper()
				r := m.planted(key(i))
				r.Delay = delay
				if _, err := old.Schedule(t.Context(), r); err != nil {
					t.Fatal(err)
				}
			}
			put(1, time.Hour)
			put(2, 0)
			old.until(t, key(2), notice.Dead)
			m.answer(200)
			put(3, 0)
			old.until(t, key(3), notice.Delivered)
			put(4, time.Hour)
			if c, _, err := old.Readdress(t.Context(), key(4), notice.Address{URL: m.planted(key(4)).URL + "/other"}, nil); err != nil || !c.Done {
				t.Fatal(c, err)
			}
			put(5, time.Hour)
			claim := old.store.Space().Claim(key(5))
			if err := srv.Client().Set(t.Context(), claim, "t", time.Minute).Err(); err != nil {
				t.Fatal(err)
			}
			old.stop()
			w := begin(scope)
			lone := m.planted(key(6))
			lone.Delay = time.Hour
			if _, err := w.Schedule(t.Context(), lone); err != nil {
				t.Fatal(err)
			}

			dry := w.sealer()
			dry.DryRun = true
			if got, err := dry.Run(t.Context()); err != nil || got != (jobs.SealedExisting{Sealed: 5}) {
				t.Errorf("a dry run: %+v, %v", got, err)
			}
			if got, err := w.sealer().Run(t.Context()); err != nil || got != (jobs.SealedExisting{Sealed: 4, Left: 1}) {
				t.Errorf("%+v, %v", got, err)
			}
			if err := srv.Client().Del(t.Context(), claim).Err(); err != nil {
				t.Fatal(err)
			}
			if got, err := w.sealer().Run(t.Context()); err != nil || got != (jobs.SealedExisting{Sealed: 1}) {
				t.Errorf("the second run: %+v, %v", got, err)
			}
			testkit.CheckSecrets(t, []string{card, password}, everything(t, w)...)

			for _, i := range []int{1, 5, 6} {
				r := m.planted(key(i))
				r.Delay = time.Hour
				if again, err := w.Schedule(t.Context(), r); err != nil || again.Created || len(again.Differs) > 0 {
					t.Errorf("%s: the same call again: %+v, %v", key(i), again, err)
				}
			}
			before := len(m.requests())
			for _, i := range []int{1, 4, 5, 6} {
				if _, err := w.Fire(t.Context(), key(i)); err != nil {
					t.Fatal(err)
				}
				w.until(t, key(i), notice.Delivered)
			}
			if _, err := w.Redrive(t.Context(), key(2), notice.Expiry{}); err != nil {
				t.Fatal(err)
			}
			w.until(t, key(2), notice.Delivered)
			for _, got := range m.requests()[before:] {
				if got != plantedRequest {
					t.Errorf("request %q", got)
				}
			}
			dead := w.until(t, key(3), notice.Delivered)
			if w.Open(t.Context(), &dead); dead.Attempts[0].Response != `{"card":"`+card+`"}` {
				t.Errorf("the answer was %q", dead.Attempts[0].Response)
			}
		})
	}
}

// Notices that a reshard has moved are sealed in their new shard, with the keys that all shards use.
func TestExistingNoticesAreSealedAfterAReshard(t *testing.T) {
	t.Parallel()
	srv, x := testkit.SharedRedis(t), newMovedSealed(t)
	old := x.start(t, srv, "")
	for i := range pendingSealed {
		old.scheduleSealed(t, sealedFor(audienceOf(i), i, time.Hour))
	}
	old.stop()
	w := x.start(t, srv, seal.PerAudience)
	w.scheduleSealed(t, sealedFor(audienceOf(0), 100, time.Hour), sealedFor(audienceOf(1), 101, time.Hour))
	if done, err := move.Reshard(t.Context(), move.Options{Conn: w.o.Conn, Namespace: srv.Namespace(), To: 3}); err != nil || done.Held > 0 {
		t.Fatalf("%+v, %v", done, err)
	}
	testkit.Until(t, "the new shards are known", func() bool { return w.store.Space().Now().Shards == 3 })
	if got, err := w.sealer().Run(t.Context()); err != nil || got != (jobs.SealedExisting{Sealed: pendingSealed}) {
		t.Fatalf("%+v, %v", got, err)
	}
	testkit.CheckSecrets(t, []string{card}, everything(t, w)...)
	for i := range pendingSealed {
		if again, err := w.Schedule(t.Context(), sealedFor(audienceOf(i), i, time.Hour)); err != nil || again.Created || len(again.Differs) > 0 {
			t.Errorf("%s: the same call again: %+v, %v", key(i), again, err)
		}
		if _, err := w.Fire(t.Context(), key(i)); err != nil {
			t.Error(err)
		}
		w.until(t, key(i), notice.Delivered)
	}
}

// A failover may lose a new key between its storing and the first notice that is sealed with it.
func TestExistingNoticesStayReadableAfterALossOfTheirKey(t *testing.T) {
	t.Parallel()
	srv := testkit.SharedRedis(t)
	old := start(t, srv, newSink(1), func(o *Options) { o.Logger, o.Space.Shards = zap.NewNop(), 2 }, sealedRoute(""))
	const n = 3
	for i := range n {
		if _, err := old.Schedule(t.Context(), sealedFor("m_1", i, time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	old.stop()

	w := startSealing(t, srv, newSink(1), seal.PerAudience)
	s := w.sealer()
	s.Progress = func(int) { // after the sealing, before the writing
		s.Progress = nil
		for place := range w.store.Space().Places() {
			if err := srv.Client().Del(t.Context(), w.store.Space().Seals(place)).Err(); err != nil {
				t.Error(err)
			}
		}
	}
	got, err := s.Run(t.Context())
	if err != nil || got.Left == 0 || got.Sealed+got.Left != n {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := w.sealer().Run(t.Context()); err != nil || got.Left != 0 {
		t.Errorf("the second run: %+v, %v", got, err)
	}
	for i := range n {
		f, err := w.store.Find(t.Context(), "app1", key(i))
		if err != nil || f.Notice == nil {
			t.Fatal(f, err)
		}
		if f.Sealed == "" {
			t.Errorf("notice %d is still clear", i)
		}
		if w.Open(t.Context(), &f); string(f.Body) != card {
			t.Errorf("notice %d has the body %q", i, f.Body)
		}
	}
}
