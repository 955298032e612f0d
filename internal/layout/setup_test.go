package layout

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keys"
	"notifier/internal/redistest"
	"notifier/internal/wire"
)

// open returns a Layout of one shard on its own database.
func open(t *testing.T, o Options) (*Layout, *redistest.Server) {
	t.Helper()
	srv := redistest.Shared(t)
	return over(t, srv.Client(), srv.Namespace(), o), srv
}

// over returns a Layout on a client.
func over(t *testing.T, c redis.UniversalClient, namespace string, o Options) *Layout {
	t.Helper()
	w := wire.New(wire.Options{Client: c, Space: keys.Space{Namespace: namespace, Shards: 1}})
	if err := w.Detect(t.Context()); err != nil {
		t.Fatal(err)
	}
	if o.Prefixes == nil {
		o.Prefixes = []string{"app1"}
	}
	return New(w, o)
}
