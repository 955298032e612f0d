package vault_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"notifier/internal/keys"
	"notifier/internal/seal"
	"notifier/internal/testkit"
	"notifier/internal/vault"
)

const keepUnused = 30 * 24 * time.Hour

func cleaner(x instance) *vault.Cleaner {
	return &vault.Cleaner{Vault: x.vault, Prefixes: x.store.Layout.Prefixes, Keep: keepUnused}
}

func clean(t *testing.T, c *vault.Cleaner, want int) {
	t.Helper()
	if n, err := c.Clean(t.Context()); err != nil || n != want {
		t.Fatalf("deleted %d keys, %v; want %d", n, err, want)
	}
}

// age makes all marks of unused keys older than Keep, and returns the number of marks.
func age(t *testing.T, srv *testkit.Redis, x instance) (n int) {
	t.Helper()
	space := x.store.Space()
	old := strconv.FormatInt(time.Now().Add(-keepUnused-time.Hour).UnixMilli(), 10)
	for place := range space.Places() {
		for name := range srv.Client().HGetAll(t.Context(), space.Seals(place)).Val() {
			if strings.HasPrefix(name, "unused:") {
				n++
				if err := srv.Client().HSet(t.Context(), space.Seals(place), name, old).Err(); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	return n
}

// remove removes a notice from Redis, as its retention does.
func remove(t *testing.T, srv *testkit.Redis, x instance, key string) {
	t.Helper()
	p := x.store.Space().Partition(prefix, key)
	if err := srv.Client().HDel(t.Context(), x.store.Space().Records(p), key).Err(); err != nil {
		t.Fatal(err)
	}
}

// Keys of subjects that have notices stay. Others are deleted when they have been unused for Keep, and not before.
func TestUnusedKeysAreDeleted(t *testing.T) {
	for _, atOnce := range []int{0, 3} {
		t.Run(fmt.Sprint(atOnce), func(t *testing.T) {
			srv := testkit.SharedRedis(t)
			a := startWith(t, srv, testkit.ServiceKeys(t, "k"), seal.PerID, 2)
			c := cleaner(a)
			c.AtOnce = atOnce
			const n = 20
			for i := range n {
				scheduled(t, a, request(orderKey(i)))
			}
			clean(t, c, 0)
			if got := age(t, srv, a); got != 0 {
				t.Fatalf("%d keys in use are marked", got)
			}
			for i := range n / 2 {
				remove(t, srv, a, orderKey(i))
			}
			for range 2 {
				clean(t, c, 0)
			}
			if got := age(t, srv, a); got != n/2 {
				t.Fatalf("%d keys are marked, want %d", got, n/2)
			}
			clean(t, c, n/2)
			a.vault.Forget(0)
			a.vault.Forget(1)
			left := 0
			for place := range 2 {
				left += len(sealsOf(t, srv, place))
			}
			if left != n { // two fields for each of the others
				t.Errorf("%d fields are left, want %d", left, n)
			}
			for i := n / 2; i < n; i++ {
				if err := opens(t.Context(), a, found(t, a, orderKey(i))); err != nil {
					t.Error(err)
				}
			}
			scheduled(t, a, request(orderKey(0))) // with a new key
			if err := opens(t.Context(), a, found(t, a, orderKey(0))); err != nil {
				t.Error(err)
			}
		})
	}
}

// A key that seals a text again, at any moment of a Clean, is not deleted.
func TestKeyThatIsUsedAgainStays(t *testing.T) {
	srv := testkit.SharedRedis(t)
	a := start(t, srv, testkit.ServiceKeys(t, "k"), seal.PerAudience)
	scheduled(t, a, request("shop:order:paid:O1"))
	id, _, _ := strings.Cut(sealsOf(t, srv, 0)[string(merchant)], " ")
	remove(t, srv, a, "shop:order:paid:O1")
	clean(t, cleaner(a), 0)
	if age(t, srv, a) != 1 {
		t.Fatal("the key is not marked")
	}

	a.vault.Forget(0)
	sealed := request("shop:order:paid:O2")
	if err := a.vault.Seal(t.Context(), 0, merchant, sealed.Key, &sealed.Content); err != nil {
		t.Fatal(err)
	}
	clean(t, cleaner(a), 0) // its notice is not stored yet: the mark begins anew
	clean(t, cleaner(a), 0)
	scheduled(t, a, request("shop:order:paid:O2"))
	if err := opens(t.Context(), a, found(t, a, "shop:order:paid:O2")); err != nil {
		t.Error(err)
	}
	age(t, srv, a)
	clean(t, cleaner(a), 0) // its notice is stored
	if sealsOf(t, srv, 0)[id] == "" || age(t, srv, a) != 0 {
		t.Errorf("the hash has %v", sealsOf(t, srv, 0))
	}
}

// Texts of outboxes and of a batch that moves name keys too.
func TestKeysOfOutboxesStay(t *testing.T) {
	srv := testkit.SharedRedis(t)
	a := startWith(t, srv, testkit.ServiceKeys(t, "k"), seal.PerID, 1)
	space := a.store.Space()
	c := srv.Client()
	for i := range 3 {
		scheduled(t, a, request(orderKey(i)))
		f := found(t, a, orderKey(i))
		text := "1 2 " + f.Record()
		var err error
		switch i {
		case 0:
			err = c.RPush(t.Context(), space.Ended(0), slices.Repeat([]any{"x"}, 450)...).Err()
			if err == nil {
				err = c.RPush(t.Context(), space.Ended(0), text).Err()
			}
		case 1:
			err = c.RPush(t.Context(), space.Deaths(0), text).Err()
		case 2:
			err = c.HSet(t.Context(), space.Moving(0), f.Key, text).Err()
		}
		if err != nil {
			t.Fatal(err)
		}
		remove(t, srv, a, f.Key)
	}
	clean(t, cleaner(a), 0)
	if n := age(t, srv, a); n != 0 {
		t.Errorf("%d keys are marked", n)
	}
}

// A shard that a reshard has made takes the keys of its notices from an old place before they are deleted there.
func TestKeysOfMovedNoticesStay(t *testing.T) {
	srv := testkit.SharedRedis(t)
	a := startWith(t, srv, testkit.ServiceKeys(t, "k"), seal.PerAudience, 1)
	scheduled(t, a, request("shop:order:paid:O1"))
	f := found(t, a, "shop:order:paid:O1")
	reshard(t, a, 2)
	to := a.store.Space().Partition(prefix, f.Key)
	if err := srv.Client().Del(t.Context(), a.store.Space().Records(keys.Partition{Prefix: prefix})).Err(); err != nil {
		t.Fatal(err)
	}
	if err := srv.Client().HSet(t.Context(), a.store.Space().Records(to), f.Key, f.Record()).Err(); err != nil {
		t.Fatal(err)
	}
	clean(t, cleaner(a), 0)
	age(t, srv, a)
	clean(t, cleaner(a), 1) // in the old place
	a.vault.Forget(to.Shard)
	f.Shard = to.Shard
	if err := opens(t.Context(), a, f); err != nil {
		t.Error(err)
	}
}
