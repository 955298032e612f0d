package vault_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"notifier/internal/seal"
	"notifier/internal/testkit"
	"notifier/internal/vault"
)

// wraps counts the stored keys of a shard by the name of their service key.
func wraps(t *testing.T, i instance) map[string]int {
	t.Helper()
	all, err := i.store.Wire().Redis.HVals(t.Context(), i.store.Space().Seals(0)).Result()
	if err != nil {
		t.Fatal(err)
	}
	by := map[string]int{}
	for _, value := range all {
		name, err := seal.WrappedWith(value[strings.LastIndexByte(value, ' ')+1:])
		if err != nil {
			t.Fatalf("%s: %v", value, err)
		}
		by[name]++
	}
	return by
}

func TestNewKeysAreWrappedWithAServiceKeyOfAllInstances(t *testing.T) {
	srv := testkit.SharedRedis(t)
	a := start(t, srv, testkit.ServiceKeys(t, "new", "old"), seal.PerID)
	core, logs := observer.New(zap.WarnLevel)
	var peers [][]string
	var unknown error
	a.vault.Follow(func(context.Context) ([][]string, error) { return peers, unknown }, zap.New(core))
	for i, x := range []struct {
		peers    [][]string
		err      error
		old, new int // stored keys: two for each subject
		said     int
	}{
		{peers: [][]string{testkit.ServiceKeys(t, "old").IDs()}, old: 2},
		{peers: [][]string{testkit.ServiceKeys(t, "old", "new").IDs()}, old: 2, new: 2},
		{peers: [][]string{testkit.ServiceKeys(t, "old", "new").IDs(), testkit.ServiceKeys(t, "other").IDs()}, old: 2, new: 4, said: 1},
		{err: errors.New("unknown"), old: 2, new: 6, said: 1},
		{peers: [][]string{testkit.ServiceKeys(t, "old").IDs()}, old: 4, new: 6, said: 1},
		{peers: [][]string{testkit.ServiceKeys(t, "other").IDs()}, old: 4, new: 8, said: 2},
	} {
		peers, unknown = x.peers, x.err
		scheduled(t, a, request("shop:order:paid:O"+string(rune('A'+i))))
		if by := wraps(t, a); by["old"] != x.old || by["new"] != x.new || logs.Len() != x.said {
			t.Errorf("%d: %v, %d lines", i, by, logs.Len())
		}
	}
}

// The configuration of one instance must not make dead letters of notices that another one can open.
func TestKeyOfTheSameNameWithAnotherSecretIsMissing(t *testing.T) {
	srv := testkit.SharedRedis(t)
	a, b := start(t, srv, testkit.ServiceKeys(t, "k"), seal.PerRoute), start(t, srv, testkit.OtherServiceKey(t, "k"), seal.PerRoute)
	scheduled(t, a, request("shop:order:paid:O1"))
	f, err := b.store.Find(t.Context(), prefix, "shop:order:paid:O1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.vault.Open(t.Context(), f.Shard, f.Key, &f.Content); !errors.Is(err, vault.ErrSealed) {
		t.Errorf("opening: %v", err)
	}
	if _, err := b.calls.Schedule(t.Context(), request("shop:order:paid:O2")); !errors.Is(err, vault.ErrSealed) {
		t.Errorf("sealing: %v", err)
	}
}
