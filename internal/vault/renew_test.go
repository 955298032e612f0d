package vault_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"notifier/internal/seal"
	"notifier/internal/testkit"
	"notifier/internal/vault"
)

const renewAfter = 30 * 24 * time.Hour

// inUse sets the marks of the keys in use to a time ago, and returns their number.
func inUse(t *testing.T, srv *testkit.Redis, x instance, ago time.Duration) (n int) {
	t.Helper()
	space := x.store.Space()
	at := strconv.FormatInt(time.Now().Add(-ago).UnixMilli(), 10)
	for place := range space.Places() {
		for name := range srv.Client().HGetAll(t.Context(), space.Seals(place)).Val() {
			if strings.HasPrefix(name, "since:") {
				n++
				if err := srv.Client().HSet(t.Context(), space.Seals(place), name, at).Err(); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	return n
}

// renewing returns a Cleaner that has marked the keys in use.
func renewing(t *testing.T, x instance) *vault.Cleaner {
	t.Helper()
	c := cleaner(x)
	c.Renew = renewAfter
	for range 2 {
		clean(t, c, 0)
	}
	return c
}

// idsOf returns the ids of a subject's data key and digest key in each shard.
func idsOf(t *testing.T, srv *testkit.Redis, of seal.Subject, shards int) (data, digest map[string]bool) {
	t.Helper()
	data, digest = map[string]bool{}, map[string]bool{}
	for shard := range shards {
		if ids := strings.Fields(sealsOf(t, srv, shard)[string(of)]); len(ids) == 3 {
			data[ids[0]], digest[ids[1]+ids[2]] = true, true
		}
	}
	return data, digest
}

// New texts get another data key after the time, in all shards. Old ones open, and repeated calls are recognized.
func TestDataKeysAreRenewed(t *testing.T) {
	for _, scope := range []seal.Scope{seal.PerRoute, seal.PerAudience} {
		t.Run(string(scope), func(t *testing.T) {
			srv := testkit.SharedRedis(t)
			a, b := startWith(t, srv, testkit.ServiceKeys(t, "k"), scope, 2), startWith(t, srv, testkit.ServiceKeys(t, "k"), scope, 2)
			clocked(b) // keeps its keys in memory
			of, _ := scope.Subject(prefix, "m_1", "")
			names := keysIn(a)
			for _, key := range names {
				scheduled(t, b, request(key))
			}
			data, digest := idsOf(t, srv, of, 2)
			c := renewing(t, a)
			if n := inUse(t, srv, a, renewAfter-time.Hour); n != 1 || len(data) != 1 {
				t.Fatalf("%d marks of %d data keys", n, len(data))
			}
			clean(t, c, 0)
			if now, _ := idsOf(t, srv, of, 2); !sameKeys(now, data) {
				t.Error("the key was renewed too early")
			}
			inUse(t, srv, a, renewAfter+time.Hour)
			for range 2 {
				clean(t, c, 0)
			}
			now, kept := idsOf(t, srv, of, 2)
			if len(now) != 1 || sameKeys(now, data) || !sameKeys(kept, digest) {
				t.Fatalf("data keys %v, before %v; digest keys %v, before %v", now, data, kept, digest)
			}

			for shard, key := range names {
				for _, x := range []instance{a, b} {
					if r := scheduled(t, x, request(key)); r.Created || len(r.Differs) > 0 {
						t.Errorf("%s: the same call again: %+v", key, r)
					}
					if err := opens(t.Context(), x, found(t, x, key)); err != nil {
						t.Error(err)
					}
				}
				a.vault.Forget(shard)
			}
			scheduled(t, a, request("shop:order:paid:NEW"))
			f := found(t, a, "shop:order:paid:NEW")
			if text, err := seal.ParseText(f.Sealed); err != nil || !now[text.DataKey] {
				t.Errorf("a new text is sealed with %s, %v; want %v", text.DataKey, err, now)
			}
			if err := opens(t.Context(), b, f); err != nil {
				t.Error(err)
			}
		})
	}
}

func sameKeys(a, b map[string]bool) bool {
	for k := range a {
		if !b[k] {
			return false
		}
	}
	return len(a) == len(b)
}

func TestForgottenSubjectGetsNoNewKey(t *testing.T) {
	srv := testkit.SharedRedis(t)
	a := startSharded(t, srv, 2)
	for _, key := range keysIn(a) {
		scheduled(t, a, request(key))
	}
	c := renewing(t, a)
	inUse(t, srv, a, renewAfter+time.Hour)
	clean(t, c, 0) // the subject has two data keys
	forget(t, a)
	if n := inUse(t, srv, a, 0); n > 1 {
		t.Errorf("%d marks", n)
	}
	clean(t, c, 0)
	for shard := range 2 {
		for name := range sealsOf(t, srv, shard) {
			if !strings.HasPrefix(name, "forgotten:") {
				t.Errorf("shard %d has %s", shard, name)
			}
		}
	}
}

// Between the two steps of a renewal, a forget may mark the subject or the new key, or another instance may renew the key.
func TestRenewalIsRefusedIfItsKeysHaveChanged(t *testing.T) {
	srv := testkit.SharedRedis(t)
	a := startSharded(t, srv, 1)
	scheduled(t, a, request("shop:order:paid:O1"))
	value, id := sealsOf(t, srv, 0)[string(merchant)], seal.NewDataKey().ID
	for _, name := range []string{vault.Mark(string(merchant)), vault.Mark(id), ""} {
		read := value
		if name == "" {
			read = strings.Replace(value, " ", "x ", 1)
		} else {
			setField(t, srv, a, name, "1")
		}
		done, err := vault.RenewIn(t.Context(), a.vault, 0, merchant, read, id)
		if seals := sealsOf(t, srv, 0); err != nil || done || seals[string(merchant)] != value || seals[id] != "" {
			t.Errorf("with the field %q: %t, %v", name, done, err)
		}
		if name != "" {
			if err := srv.Client().HDel(t.Context(), a.store.Space().Seals(0), name).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
	done, err := vault.RenewIn(t.Context(), a.vault, 0, merchant, value, id)
	if seals := sealsOf(t, srv, 0); err != nil || !done || !strings.HasPrefix(seals[string(merchant)], id+" ") || seals[id] == "" {
		t.Errorf("with the keys that were read: %t, %v", done, err)
	}
}

func TestKeysOfIDsAreNotRenewed(t *testing.T) {
	srv := testkit.SharedRedis(t)
	a := startWith(t, srv, testkit.ServiceKeys(t, "k"), seal.PerID, 2)
	scheduled(t, a, request(orderKey(1)))
	renewing(t, a)
	if n := inUse(t, srv, a, 0); n != 0 {
		t.Errorf("%d marks", n)
	}
}

// A key may be renewed before a migration or between two of its passes: texts under both keys open on the other side, new ones there get
// the newer key if the other side had none, and a forget there deletes both.
func TestRenewedKeysAreCopied(t *testing.T) {
	for _, between := range []bool{false, true} {
		srv := testkit.SharedRedis(t)
		a := startSharded(t, srv, 2)
		b := other(t, a, seal.PerAudience, 3)
		copied := func() {
			t.Helper()
			if err := vault.Copy(t.Context(), a.store.Wire(), b.store.Wire()); err != nil {
				t.Fatal(err)
			}
		}
		scheduled(t, a, request("shop:order:paid:O1"))
		if between {
			copied()
		}
		c := renewing(t, a)
		inUse(t, srv, a, renewAfter)
		clean(t, c, 0)
		a.vault.Forget(0)
		a.vault.Forget(1)
		scheduled(t, a, request("shop:order:paid:O2"))
		texts := []string{"shop:order:paid:O1", "shop:order:paid:O2"}
		if one, two := found(t, a, texts[0]), found(t, a, texts[1]); one.Sealed[:20] == two.Sealed[:20] {
			t.Fatalf("the key was not renewed: %s, %s", one.Sealed, two.Sealed)
		}

		copied()
		for place := range 3 {
			b.vault.Forget(place)
		}
		for _, key := range texts {
			f := found(t, a, key)
			f.Shard = b.store.Space().Shard(key)
			if err := opens(t.Context(), b, f); err != nil {
				t.Errorf("renewed between the passes: %t: %s: %v", between, key, err)
			}
		}
		scheduled(t, b, request("shop:order:paid:O3"))
		newest := found(t, b, "shop:order:paid:O3")
		if newest.Sealed[:20] != found(t, a, texts[1]).Sealed[:20] && !between {
			t.Errorf("a new text has another key than the renewed one: %s", newest.Sealed)
		}
		f, err := b.vault.ForgetSubject(t.Context(), merchant)
		if err != nil || len(f.IDs) != 2 {
			t.Fatal(f, err)
		}
		for _, key := range texts {
			x := found(t, a, key)
			x.Shard = b.store.Space().Shard(key)
			gone(t, opens(t.Context(), b, x), f.At)
		}
	}
}
