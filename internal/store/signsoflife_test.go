package store_test

import (
	"errors"
	"testing"
	"time"

	"notifier/internal/fleet"
	"notifier/internal/keys"
	"notifier/internal/store"
	"notifier/internal/testkit"
)

// Where the layout is another, an instance claims no route and gives no sign of life. Signs of life do not compare the
// layout themselves: they end once another call has found it wrong.
func TestNoSignsOfLifeWhereTheLayoutIsAnother(t *testing.T) {
	t.Parallel()
	srv := testkit.SharedRedis(t)
	ctx, c := t.Context(), srv.Client()
	s := store.New(store.Options{Client: c, Space: keys.Space{Namespace: srv.Namespace(), Shards: 1}, Prefixes: []string{"app1"}})
	if err := s.Layout.Learn(ctx); err != nil {
		t.Fatal(err)
	}
	c.FlushDB(ctx)
	c.HSet(ctx, s.Space().Meta(), "layout", store.Version, "shards", 4)
	if _, err := s.Find(ctx, "app1", "app1:a:b:1"); !errors.Is(err, store.ErrLayout) {
		t.Fatalf("find: %v, want ErrLayout", err)
	}
	instance := fleet.NewStore(s.Layout)
	for name, do := range map[string]func() error{
		"serve": func() error {
			_, err := instance.Serve(ctx, "i", []string{"app1"}, time.Second)
			return err
		},
		"beat": func() error {
			_, err := instance.Publish(ctx, fleet.Heartbeat{ID: "aaaaaaaaaaaa", About: "{}"})
			return err
		},
		"leave": func() error { return instance.Leave(ctx, "aaaaaaaaaaaa") },
	} {
		if err := do(); !errors.Is(err, store.ErrLayout) {
			t.Errorf("%s: %v, want ErrLayout", name, err)
		}
	}
	if n := c.DBSize(ctx).Val(); n != 1 {
		t.Errorf("%v were written", c.Keys(ctx, "*").Val())
	}
}
