package listener

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"

	"notifier/internal/redistest"
)

// A user without CONFIG is the rule on managed Redis, and with the shipped rights: what
// a node sends is observed there.
func TestProbeObservesEventsWhereConfigIsRefused(t *testing.T) {
	srv := redistest.Start(t)
	ctx := context.Background()
	c, set := limited(t, srv, "&*")
	set("-config")
	flags := func(value string) {
		t.Helper()
		if err := srv.Client().ConfigSet(ctx, "notify-keyspace-events", value).Err(); err != nil {
			t.Fatal(err)
		}
	}
	flags("Ex")
	l, e, logs := newListener(t, c, srv.Namespace(), nil)
	run(t, l)
	last := func(want bool) func() bool {
		return func() bool { return len(e.events) > 0 && e.events[len(e.events)-1] == want }
	}
	e.until(t, "the first event", last(true))
	flags("")
	e.until(t, "the end of events", last(false))
	if told := logs.FilterMessageSnippet("no expired events"); told.Len() != 1 {
		t.Errorf("logged %d times", told.Len())
	}
	flags("Ex")
	e.until(t, "events again", last(true))
}

// In a cluster a node takes only keys of its own slots.
func TestProbeKeyIsOfTheNode(t *testing.T) {
	srv := redistest.Start(t, redistest.WithConfig("cluster-enabled yes"))
	ctx, c := context.Background(), srv.Client()
	l, _, _ := newListener(t, c, srv.Namespace(), func(o *Options) {
		o.Masters = func(context.Context, func(context.Context, *redis.Client) error) error { return nil }
	})
	if _, err := l.probeKey(ctx, c, "x"); err == nil {
		t.Error("a node without slots has a key")
	}
	if err := c.ClusterAddSlotsRange(ctx, 5000, 5010).Err(); err != nil {
		t.Fatal(err)
	}
	key, err := l.probeKey(ctx, c, "x")
	if err != nil {
		t.Fatal(err)
	}
	if slot := c.ClusterKeySlot(ctx, key).Val(); slot != 5000 {
		t.Errorf("%s is in slot %d", key, slot)
	}
}
