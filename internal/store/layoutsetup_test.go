package store

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keys"
	"notifier/internal/testkit"
	"notifier/internal/wire"
)

// openLayout returns a Layout of one shard on its own database.
func openLayout(t *testing.T, o LayoutOptions) (*Layout, *testkit.Redis) {
	t.Helper()
	srv := testkit.SharedRedis(t)
	return overLayout(t, srv.Client(), srv.Namespace(), o), srv
}

// overLayout returns a Layout on a client.
func overLayout(t *testing.T, c redis.UniversalClient, namespace string, o LayoutOptions) *Layout {
	t.Helper()
	w := wire.New(wire.Options{Client: c, Space: keys.Space{Namespace: namespace, Shards: 1}})
	if err := w.Detect(t.Context()); err != nil {
		t.Fatal(err)
	}
	if o.Prefixes == nil {
		o.Prefixes = []string{"app1"}
	}
	return NewLayout(w, o)
}
