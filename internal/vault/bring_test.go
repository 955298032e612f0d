package vault_test

import (
	"fmt"
	"strings"
	"testing"

	"notifier/internal/keys"
	"notifier/internal/seal"
	"notifier/internal/testkit"
	"notifier/internal/vault"
)

// keysIn returns orders of the test's route, one of which each shard of a store has.
func keysIn(x instance) map[int]string {
	names := map[int]string{}
	space := x.store.Space()
	for i := 0; len(names) < space.Now().Shards; i++ {
		key := fmt.Sprintf("shop:order:paid:B%d", i)
		names[space.Shard(key)] = key
	}
	return names
}

// reshard makes other shards current, as notifier reshard does before it moves notices.
func reshard(t *testing.T, x instance, to int) {
	t.Helper()
	space := x.store.Space()
	if err := x.store.Layout.Announce(t.Context(), space.Now().Replace(to, false)); err != nil {
		t.Fatal(err)
	}
}

func TestAllShardsUseTheSameKeysOfASubject(t *testing.T) {
	srv := testkit.SharedRedis(t)
	a := startSharded(t, srv, 3)
	for _, key := range keysIn(a) {
		scheduled(t, a, request(key))
	}
	want := sealsOf(t, srv, 0)[string(merchant)]
	for shard := range 3 {
		if got := sealsOf(t, srv, shard)[string(merchant)]; got != want || got == "" {
			t.Errorf("shard %d has %q, the first %q", shard, got, want)
		}
	}
}

// New shards have no keys: those of the old places are used, so that notices open, and that a repeated call is recognized.
func TestKeysAreTheSameAfterAReshard(t *testing.T) {
	for _, scope := range []seal.Scope{seal.PerRoute, seal.PerAudience, seal.PerID} {
		t.Run(string(scope), func(t *testing.T) {
			srv := testkit.SharedRedis(t)
			a := startWith(t, srv, testkit.ServiceKeys(t, "k"), scope, 2)
			names := keysIn(a)
			for _, key := range names {
				scheduled(t, a, request(key))
			}
			before := map[string]string{} // by key
			for _, key := range names {
				before[key] = found(t, a, key).Same
			}
			reshard(t, a, 3)

			for _, key := range names {
				f, to := found(t, a, key), a.store.Space().Shard(key)
				if to < 2 {
					t.Fatalf("%s belongs to the old place %d", key, to)
				}
				f.Shard = to // as if it had moved
				if err := opens(t.Context(), a, f); err != nil {
					t.Errorf("%s does not open in its new shard: %v", key, err)
				}
				r := request(key)
				of, _ := scope.Subject(prefix, r.Audience, key)
				if err := a.vault.Seal(t.Context(), to, of, key, &r.Content); err != nil || r.Same != before[key] {
					t.Errorf("%s has the digest %s, %v; before %s", key, r.Same, err, before[key])
				}
			}
		})
	}
}

func TestForgottenSubjectStaysSoAfterAReshard(t *testing.T) {
	srv := testkit.SharedRedis(t)
	a := startSharded(t, srv, 2)
	scheduled(t, a, request("shop:order:paid:O1"))
	f := found(t, a, "shop:order:paid:O1")
	at := forget(t, a)
	reshard(t, a, 3)

	for shard := 2; shard < 5; shard++ {
		f.Shard = shard
		gone(t, opens(t.Context(), a, f), at)
		gone(t, vault.Create(t.Context(), a.vault, shard, merchant), at)
	}
	if was, err := a.vault.Lift(t.Context(), merchant); !was || err != nil {
		t.Fatal(was, err)
	}
	scheduled(t, a, request("shop:order:paid:O2"))
	f.Shard = a.store.Space().Shard(f.Key)
	gone(t, opens(t.Context(), a, f), at)
}

// Another instance may have read a key in one place before the forget, and stores it in another place after the lift.
func TestKeyThatWasReadBeforeTheForgetIsNotBroughtBack(t *testing.T) {
	srv := testkit.SharedRedis(t)
	a := startSharded(t, srv, 3)
	scheduled(t, a, request(keysIn(a)[0]))
	id, _, _ := strings.Cut(sealsOf(t, srv, 0)[string(merchant)], " ")
	read, err := a.vault.Keys(t.Context(), 2, []string{id})
	if err != nil || len(read) != 1 {
		t.Fatalf("shard 2 finds %v, %v", read, err)
	}
	at := forget(t, a)
	if _, err := a.vault.Lift(t.Context(), merchant); err != nil {
		t.Fatal(err)
	}

	refused, err := a.vault.Bring(t.Context(), 2, read)
	if err != nil || !refused[id].Equal(at) {
		t.Errorf("refused %v, %v; want %s at %s", refused, err, id, at)
	}
	if value := sealsOf(t, srv, 2)[id]; value != "" {
		t.Errorf("shard 2 has %q", value)
	}
	if got, err := a.vault.Keys(t.Context(), 1, []string{id}); err != nil || len(got) != 0 {
		t.Errorf("the key is found: %v, %v", got, err)
	}
}

// A history from before the forget has the key, and a new shard has no mark of it.
func TestKeyOfAnArchiveIsNotBroughtIfAnyShardHasItsMark(t *testing.T) {
	for _, mark := range []string{"key", "subject"} {
		t.Run(mark, func(t *testing.T) {
			srv := testkit.SharedRedis(t)
			a := startSharded(t, srv, 2)
			scheduled(t, a, request("shop:order:paid:O1"))
			f := found(t, a, "shop:order:paid:O1")
			own := sealsOf(t, srv, f.Shard)
			id := strings.Fields(own[string(merchant)])[0]
			at := forget(t, a)
			if mark == "subject" { // as of a key that Redis did not have at the forget
				for place := range 2 {
					if err := srv.Client().HDel(t.Context(), a.store.Space().Seals(place), vault.Mark(id)).Err(); err != nil {
						t.Fatal(err)
					}
				}
			}
			reshard(t, a, 4)
			gone, err := a.vault.Bring(t.Context(), 3, map[string]string{id: own[id]})
			if err != nil || len(gone) != 1 || !gone[id].Equal(at) {
				t.Errorf("forgotten: %v, %v", gone, err)
			}
			if seals := sealsOf(t, srv, 3); seals[id] != "" {
				t.Errorf("the new shard has %q", seals)
			}
		})
	}
}

// other returns an instance on another Redis with the same namespace.
func other(t *testing.T, a instance, scope seal.Scope, shards int) instance {
	t.Helper()
	srv := testkit.StartRedis(t)
	return startIn(t, srv, testkit.ServiceKeys(t, "k"), scope, keys.Space{Namespace: a.store.Space().Namespace, Shards: shards})
}

func TestCopyBringsKeysAndMarks(t *testing.T) {
	for _, scope := range []seal.Scope{seal.PerRoute, seal.PerAudience, seal.PerID} {
		t.Run(string(scope), func(t *testing.T) {
			a := startWith(t, testkit.SharedRedis(t), testkit.ServiceKeys(t, "k"), scope, 3)
			b := other(t, a, scope, 2)
			for _, key := range keysIn(a) {
				scheduled(t, a, request(key))
			}
			for range 2 {
				if err := vault.Copy(t.Context(), a.store.Wire(), b.store.Wire()); err != nil {
					t.Fatal(err)
				}
			}
			for _, key := range keysIn(a) {
				f, r := found(t, a, key), request(key)
				want := f.Same
				f.Shard = b.store.Space().Shard(key)
				if err := opens(t.Context(), b, f); err != nil {
					t.Errorf("%s does not open: %v", key, err)
				}
				of, _ := scope.Subject(prefix, r.Audience, key)
				if err := b.vault.Seal(t.Context(), f.Shard, of, key, &r.Content); err != nil || r.Same != want {
					t.Errorf("%s has the digest %s, %v; want %s", key, r.Same, err, want)
				}
			}
		})
	}
}

// A subject is forgotten on one side of a migration, and lifted on the other: the later one counts, whichever way Copy goes.
func TestCopyKeepsTheLaterOfForgetAndLift(t *testing.T) {
	a := startSharded(t, testkit.SharedRedis(t), 2)
	b := other(t, a, seal.PerAudience, 3)
	copied := func(from, to instance) {
		t.Helper()
		if err := vault.Copy(t.Context(), from.store.Wire(), to.store.Wire()); err != nil {
			t.Fatal(err)
		}
	}
	scheduled(t, a, request("shop:order:paid:O1"))
	old := found(t, a, "shop:order:paid:O1")
	copied(a, b)
	at := forget(t, a)
	copied(a, b)
	old.Shard = 1
	b.vault.Forget(1)
	gone(t, opens(t.Context(), b, old), at)
	gone(t, vault.Create(t.Context(), b.vault, 1, merchant), at)

	if _, err := b.vault.Lift(t.Context(), merchant); err != nil {
		t.Fatal(err)
	}
	copied(a, b) // the mark of the old side must not come back
	scheduled(t, b, request("shop:order:paid:O2"))
	back := found(t, b, "shop:order:paid:O2")
	copied(b, a)
	back.Shard = 0
	if err := opens(t.Context(), a, back); err != nil {
		t.Errorf("the key of after the lift does not open on the first side: %v", err)
	}
	gone(t, opens(t.Context(), a, old), at)
}

// A notice whose key was deleted before the copy is forgotten at the other side too, and stays so after a lift.
func TestCopyKeepsDeletedKeysForgotten(t *testing.T) {
	for _, lifted := range []bool{false, true} {
		a := startSharded(t, testkit.SharedRedis(t), 2)
		b := other(t, a, seal.PerAudience, 3)
		scheduled(t, a, request("shop:order:paid:O1"))
		old := found(t, a, "shop:order:paid:O1")
		at := forget(t, a)
		if lifted {
			if _, err := a.vault.Lift(t.Context(), merchant); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 { // it may be repeated
			if err := vault.Copy(t.Context(), a.store.Wire(), b.store.Wire()); err != nil {
				t.Fatal(err)
			}
		}
		for old.Shard = range 3 {
			gone(t, opens(t.Context(), b, old), at)
		}
		if err := vault.Create(t.Context(), b.vault, 1, merchant); vault.ForgottenAt(err).IsZero() == !lifted {
			t.Errorf("lifted %t, and a new key: %v", lifted, err)
		}
	}
}

// The first notice of an id asks its own shard only, however many shards there are.
func TestNewIDAsksItsShardOnly(t *testing.T) {
	srv := testkit.StartRedis(t)
	a := startWith(t, srv, testkit.ServiceKeys(t, "k"), seal.PerID, 8)
	const name = "cmdstat_hmget:calls="
	reads := func() (n int) {
		for line := range strings.Lines(srv.Client().Info(t.Context(), "commandstats").Val()) {
			if text, ok := strings.CutPrefix(line, name); ok {
				if _, err := fmt.Sscan(strings.Split(text, ",")[0], &n); err != nil {
					t.Fatal(err)
				}
			}
		}
		return n
	}
	before := reads()
	key := orderKey(1)
	if err := vault.Create(t.Context(), a.vault, a.store.Space().Shard(key), seal.IDSubject(keys.OrderKey(key))); err != nil {
		t.Fatal(err)
	}
	if n := reads() - before; n == 0 || n > 2 { // of the home, and of the script
		t.Errorf("%d reads", n)
	}
}
