//go:build fault

package acceptance

import (
	"strconv"
	"testing"

	"notifier/internal/keys"
	"notifier/internal/testkit"
)

// holding is the master that has a key's slot.
func (c *nodes) holding(t *testing.T, key string) *testkit.Redis {
	t.Helper()
	m, err := c.client.MasterForKey(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	return c.all[m.Options().Addr]
}

// tagged is where a service keeps so many shards in a cluster that is new to it.
func tagged(shards int) keys.Space {
	return keys.Space{Namespace: "notifier", Shards: shards, Tags: keys.SpreadTags(shards)}
}

// shardsOf are the shards, of so many, whose slots a node has.
func (c *nodes) shardsOf(t *testing.T, node *testkit.Redis, shards int) map[int]bool {
	t.Helper()
	of := map[int]bool{}
	space := tagged(shards)
	for shard := range shards {
		if c.holding(t, space.Base(shard)) == node {
			of[shard] = true
		}
	}
	return of
}

// launchOn starts a service on the cluster, and waits until it has subscribed at
// each master.
func (c *nodes) launchOn(t *testing.T, shards, masters int, envs ...[]string) *service {
	t.Helper()
	s := launch(t, c.url, append([][]string{{"NOTIFIER_REDIS_MODE=cluster", "NOTIFIER_SHARDS=" + strconv.Itoa(shards)}}, envs...)...)
	await(t, waitTimeout, "a subscription at each master", func() bool { return s.metric("notifier_subscriptions_total") >= float64(masters) })
	return s
}
