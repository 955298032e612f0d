package engine

import (
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"notifier/internal/route"
	"notifier/internal/seal"
	"notifier/internal/testkit"
)

// wraps counts the stored keys of a shard by the name of their service key.
func (w *world) wraps(t *testing.T) map[string]int {
	t.Helper()
	all, err := w.srv.Client().HVals(t.Context(), w.store.Space().Seals(0)).Result()
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

func TestInstancesAnnounceTheirServiceKeys(t *testing.T) {
	t.Parallel()
	m, srv := newMerchant(t, 200), testkit.SharedRedis(t)
	r := sealedRoute(seal.PerID)
	r.Allow, _ = route.ParseAllow("127.0.0.1")
	with := func(names ...string) func(*Options) {
		return func(o *Options) {
			o.Logger = zap.NewNop()
			if len(names) > 0 {
				o.SealKeys = sealKeys(t, names...)
			}
		}
	}
	put := func(w *world, n int) {
		t.Helper()
		x := m.planted(key(n))
		x.Delay = time.Hour
		if _, err := w.Schedule(t.Context(), x); err != nil {
			t.Fatal(err)
		}
	}
	old := start(t, srv, newSink(1), with("old"), r)
	start(t, srv, newSink(1), with(), sealedRoute("")) // has none, and decides nothing
	testkit.Until(t, "the old one is alive", func() bool { return old.fleet.View().Known() })

	// Before its first heartbeat an instance reads the keys of the others.
	o := old.o
	o.SealKeys = sealKeys(t, "new", "old")
	if lists, err := New(o).peersSealKeys(t.Context()); err != nil || len(lists) != 1 || !slices.Equal(lists[0], sealKeys(t, "old").IDs()) {
		t.Errorf("before the first heartbeat: %q, %v", lists, err)
	}

	both := start(t, srv, newSink(1), with("new", "old"), r)
	put(both, 1)
	if by := both.wraps(t); by["old"] != 2 || by["new"] != 0 {
		t.Errorf("while an instance does not have the new key: %v", by)
	}
	old.stop()
	testkit.Until(t, "the old one has left", func() bool { return len(both.fleet.View().SealKeys()) == 0 })
	put(both, 2)
	if by := both.wraps(t); by["old"] != 2 || by["new"] != 2 {
		t.Errorf("after it has left: %v", by)
	}
}
