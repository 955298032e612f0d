package vault_test

import (
	"strings"
	"testing"

	"notifier/internal/keys"
	"notifier/internal/seal"
	"notifier/internal/store"
	"notifier/internal/testkit"
	"notifier/internal/vault"
	"notifier/internal/wire"
)

// The shards are on both masters of the cluster.
func TestSealedNoticesBehindSentinelsAndInACluster(t *testing.T) {
	for name, begin := range map[string]func() wire.Address{
		"sentinel": func() wire.Address {
			_, port, _ := strings.Cut(testkit.StartRedis(t).Addr(), ":")
			return wire.Address{Mode: "sentinel", URL: "redis://" + testkit.Sentinel(t, func() string { return port }) + "/0?master_name=m"}
		},
		"cluster": func() wire.Address {
			a, _ := testkit.StartCluster(t, 8191)
			return wire.Address{Mode: "cluster", URL: "redis://" + a.Addr()}
		},
	} {
		t.Run(name, func(t *testing.T) {
			address := begin()
			with := func(names ...string) instance {
				t.Helper()
				return startAt(t, address, testkit.ServiceKeys(t, names...), seal.PerAudience, keys.Space{Namespace: "notifier", Shards: 8})
			}
			old := with("old")
			list := keysIn(old)
			other := map[int]string{}
			for shard, key := range list {
				scheduled(t, old, request(key))
				r := request(key + "-2")
				r.Audience = "m_2"
				scheduled(t, old, r)
				other[shard] = r.Key
			}

			done := rewrap(t, rewrapper(t, old))
			if done.Rewrapped == 0 || done.Rewrapped != done.Under["new"] || len(done.Under) != 1 {
				t.Errorf("%+v", done)
			}
			x := with("new")
			for _, key := range list {
				if err := opens(t.Context(), x, found(t, x, key)); err != nil {
					t.Errorf("%s: %v", key, err)
				}
			}

			at := forget(t, x)
			for shard, key := range list {
				gone(t, opens(t.Context(), x, found(t, x, key)), at)
				if err := opens(t.Context(), x, found(t, x, other[shard])); err != nil {
					t.Errorf("another audience: %s: %v", other[shard], err)
				}
			}
			for _, r := range x.calls.Many(t.Context(), []store.Request{request("shop:order:paid:N1"), request("shop:order:paid:N2")}) {
				gone(t, r.Err, at)
			}
			if under, err := vault.Count(t.Context(), x.store.Wire()); err != nil || under["new"] == 0 || under["new"] >= done.Under["new"] {
				t.Errorf("%v keys after the forget of %v, %v", under, done.Under, err)
			}
		})
	}
}
