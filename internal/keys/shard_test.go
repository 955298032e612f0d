package keys

import "testing"

func TestShardOfNamesTheSameKeysAsASpace(t *testing.T) {
	s := Space{Namespace: "n", Shards: 3}
	b := ShardOf(s.Shadow(Partition{Prefix: "a:b", Shard: 2}))
	for got, want := range map[string]string{
		string(b): s.Base(2), b.Layout(): s.Layout(2), b.Routes(): s.ShardRoutes(2), b.Confirmed(): s.Confirmed(2), b.Tag(): s.Tag(2),
		ShadowPrefix(s.Shadow(Partition{Prefix: "a:b", Shard: 2})): "a:b",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
