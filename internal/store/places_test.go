package store

import (
	"errors"
	"testing"

	"notifier/internal/keys"
)

// An instance that does not know of a reshard is refused.
func TestAnInstanceWithoutTheReshardIsRefused(t *testing.T) {
	s, srv := openLayout(t, LayoutOptions{})
	if err := s.Learn(t.Context()); err != nil {
		t.Fatal(err)
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
