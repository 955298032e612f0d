package store

import (
	"context"
	"errors"
	"strings"
	"testing"

	"notifier/internal/keys"
)

// An earlier version uses a digest that stays the same without a reshard, and is refused after one.
func TestTheVersionBeforeIsRefusedAfterAReshard(t *testing.T) {
	s, srv := openLayout(t, LayoutOptions{})
	if err := s.Learn(t.Context()); err != nil {
		t.Fatal(err)
	}
	former := strings.NewReplacer("had[5] or had[2]", "had[2]").Replace(registerSource)
	state := func() string { return srv.Client().HGet(context.Background(), s.space.Layout(0), "state").Val() }
	before := state()
	if _, err := srv.Client().Eval(t.Context(), former, []string{s.space.Layout(0), s.space.ShardRoutes(0)}, Version, 1, "1", "", "", "", "",
		1, 0, "", "", "part", "app1").Result(); err != nil {
		t.Fatal(err)
	}
	if state() != before {
		t.Error("the digest has changed")
	}
	if err := s.Announce(t.Context(), s.space.Replace(1, false)); err != nil {
		t.Fatal(err)
	}
	meta := srv.Client().HGetAll(t.Context(), s.space.Meta()).Val()
	if meta["tags"] != "1" || meta["former"] != "0" || meta["replaced"] != "1" || meta["shards"] != "1" {
		t.Errorf("%v", meta)
	}
	if err := checkMeta(meta, keys.Space{Namespace: s.space.Namespace, Shards: 1}); !errors.Is(err, ErrLayout) {
		t.Errorf("%v", err)
	}
}
