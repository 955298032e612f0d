package vault_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"notifier/internal/seal"
	"notifier/internal/testkit"
	"notifier/internal/vault"
)

// subjects is more than one page of keys: each subject has two.
const subjects = 300

func orderKey(n int) string { return fmt.Sprintf("shop:order:paid:O%d", n) }

// filled returns an instance with the key "old" that has scheduled a notice of each subject.
func filled(t *testing.T, srv *testkit.Redis) instance {
	t.Helper()
	i := start(t, srv, testkit.ServiceKeys(t, "old"), seal.PerID)
	i.vault.KeyAge = time.Hour // its keys stay in memory, however slow the machine is
	for n := range subjects {
		scheduled(t, i, request(orderKey(n)))
	}
	return i
}

// rewrapper returns a Rewrapper from "old" to "new".
func rewrapper(t *testing.T, i instance) *vault.Rewrapper {
	t.Helper()
	return &vault.Rewrapper{Keys: testkit.ServiceKeys(t, "new", "old"), Wire: i.store.Wire()}
}

func rewrap(t *testing.T, r *vault.Rewrapper) vault.Rewrapped {
	t.Helper()
	done, err := r.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return done
}

func stored(t *testing.T, i instance) map[string]string {
	t.Helper()
	all, err := i.store.Wire().Redis.HGetAll(t.Context(), i.store.Space().Seals(0)).Result()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// opensAll checks that an instance opens the notices of the first n subjects, and recognises their calls.
func opensAll(t *testing.T, i instance, n int) {
	t.Helper()
	want := string(request("x").Body)
	for n := range n {
		f, err := i.store.Find(t.Context(), prefix, orderKey(n))
		if err != nil {
			t.Fatal(err)
		}
		if c, err := i.vault.Open(t.Context(), f.Shard, f.Key, &f.Content); err != nil || string(c.Body) != want {
			t.Fatalf("%s: %s, %v", f.Key, c.Body, err)
		}
		if r := scheduled(t, i, request(orderKey(n))); r.Created || len(r.Differs) > 0 {
			t.Fatalf("%s: the same call again: %+v", f.Key, r)
		}
	}
}

func TestRewrappedKeysNeedOnlyTheNewServiceKey(t *testing.T) {
	srv := testkit.SharedRedis(t)
	old := filled(t, srv)
	before := stored(t, old)
	dry := rewrapper(t, old)
	dry.DryRun = true
	if done := rewrap(t, dry); done.Rewrapped != 2*subjects || done.Under["old"] != 2*subjects || !maps.Equal(stored(t, old), before) {
		t.Errorf("dry run: %+v", done)
	}
	seen, r := 0, rewrapper(t, old)
	r.Rate, r.Progress = 1e6, func(n int) { seen += n }
	if done := rewrap(t, r); done.Rewrapped != 2*subjects || done.Under["new"] != 2*subjects || len(done.Under) != 1 || seen < 2*subjects {
		t.Errorf("%+v, %d seen", done, seen)
	}
	if done := rewrap(t, rewrapper(t, old)); done.Rewrapped != 0 {
		t.Errorf("again: %+v", done)
	}
	opensAll(t, old, subjects) // it has all keys in memory
	opensAll(t, start(t, srv, testkit.ServiceKeys(t, "new"), seal.PerID), subjects)
}

// Each write is one step of Redis, so a kill ends between two writes.
func TestRewrapContinuesAfterAKill(t *testing.T) {
	srv := testkit.SharedRedis(t)
	old := filled(t, srv)
	killed, calls := rewrapper(t, old), 0
	errKilled := errors.New("killed")
	killed.Check = func(context.Context) error {
		if calls++; calls == 2 {
			return errKilled
		}
		return nil
	}
	done, err := killed.Run(t.Context())
	by := wraps(t, old)
	if !errors.Is(err, errKilled) || by["new"] == 0 || by["old"] == 0 || done.Rewrapped != by["new"] {
		t.Fatalf("%+v, %v, %v", done, by, err)
	}
	opensAll(t, start(t, srv, testkit.ServiceKeys(t, "old", "new"), seal.PerID), subjects)
	if done := rewrap(t, rewrapper(t, old)); done.Rewrapped != by["old"] {
		t.Errorf("%d, want %d", done.Rewrapped, by["old"])
	}
	opensAll(t, start(t, srv, testkit.ServiceKeys(t, "new"), seal.PerID), subjects)
}

func TestTwoRewrapsAtOnceWrapEachKeyOnce(t *testing.T) {
	srv := testkit.SharedRedis(t)
	old := filled(t, srv)
	first, second, inner := rewrapper(t, old), rewrapper(t, old), vault.Rewrapped{}
	first.Check = func(context.Context) error { // first has read keys that it has not written
		if inner.Rewrapped == 0 {
			inner = rewrap(t, second)
		}
		return nil
	}
	if done := rewrap(t, first); done.Rewrapped != 0 || inner.Rewrapped != 2*subjects {
		t.Errorf("%+v, %+v", done, inner)
	}
	opensAll(t, start(t, srv, testkit.ServiceKeys(t, "new"), seal.PerID), subjects)
}

func TestRewrapFindsKeysThatAreStoredMeanwhile(t *testing.T) {
	srv := testkit.SharedRedis(t)
	old, more := filled(t, srv), 0
	r := rewrapper(t, old)
	r.Check = func(context.Context) error {
		if more < 3 {
			scheduled(t, old, request(orderKey(subjects+more)))
			more++
		}
		return nil
	}
	if done := rewrap(t, r); done.Rewrapped != 2*(subjects+3) || len(done.Under) != 1 {
		t.Errorf("%+v", done)
	}
	opensAll(t, start(t, srv, testkit.ServiceKeys(t, "new"), seal.PerID), subjects+3)
}

// A key that was deleted must not come back, and a newer one must not be replaced.
func TestRewrapLeavesChangedKeys(t *testing.T) {
	srv := testkit.SharedRedis(t)
	old := start(t, srv, testkit.ServiceKeys(t, "old"), seal.PerID)
	for n := range 3 {
		scheduled(t, old, request(orderKey(n)))
	}
	table, c := old.store.Space().Seals(0), old.store.Wire().Redis
	field := func(n int) string { return "id:shop:order:O" + fmt.Sprint(n) }
	all := stored(t, old)
	if all[field(0)] == "" {
		t.Fatalf("%v", all)
	}
	r, newer := rewrapper(t, old), "forgotten 1234"
	r.Check = func(context.Context) error {
		return errors.Join(c.HDel(t.Context(), table, field(0), strings.Fields(all[field(0)])[0]).Err(),
			c.HSet(t.Context(), table, field(1), newer).Err())
	}
	if done := rewrap(t, r); done.Rewrapped != 3 { // a data key, and the keys of the third subject
		t.Errorf("%+v", done)
	}
	if now := stored(t, old); len(now) != 4 || now[field(0)] != "" || now[field(1)] != newer {
		t.Errorf("%v", now)
	}
}

func TestRewrapCountsKeysThatItCannotOpen(t *testing.T) {
	srv := testkit.SharedRedis(t)
	scheduled(t, start(t, srv, testkit.ServiceKeys(t, "older"), seal.PerID), request(orderKey(0)))
	old := start(t, srv, testkit.ServiceKeys(t, "old"), seal.PerID)
	scheduled(t, old, request(orderKey(1)))
	scheduled(t, start(t, srv, testkit.OtherServiceKey(t, "old"), seal.PerID), request(orderKey(2)))
	done := rewrap(t, rewrapper(t, old))
	if done.Rewrapped != 2 || done.Unreadable != 2 || !maps.Equal(map[string]int(done.Under), map[string]int{"new": 2, "old": 2, "older": 2}) {
		t.Errorf("%+v", done)
	}
}
