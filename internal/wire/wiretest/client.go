package wiretest

import (
	"testing"

	"notifier/internal/keys"
	"notifier/internal/testkit"
	"notifier/internal/wire"
)

// Open is a client on a namespace of its own.
func Open(t *testing.T) (*wire.Client, *testkit.Redis) {
	t.Helper()
	srv := testkit.SharedRedis(t)
	return On(t, srv.URL(), srv.Namespace()), srv
}

// On is a client on a server, with one shard.
func On(t testing.TB, url, namespace string) *wire.Client {
	t.Helper()
	c, err := wire.Open(wire.Address{URL: url})
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { _ = c.Close() })
	w := wire.New(wire.Options{Client: c.Commander, Space: keys.Space{Namespace: namespace, Shards: 1}})
	if err := w.Detect(t.Context()); err != nil {
		t.Fatal(err)
	}

	return w
}
