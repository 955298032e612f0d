package layout

import (
	"errors"
	"testing"

	"notifier/internal/keys"
	"notifier/internal/redistest"
	"notifier/internal/wire"
)

func TestIdentityIsWrittenOnce(t *testing.T) {
	t.Parallel()
	srv := redistest.Shared(t)
	c, space := srv.Client(), keys.Space{Namespace: srv.Namespace(), Shards: 1}
	instance := func() *Layout { return over(t, c, srv.Namespace(), Options{}) }
	s := instance()

	// Without a layout a field of notifier:meta would keep instances from starting.
	if _, err := s.Identity(t.Context()); !errors.Is(err, wire.ErrNotBegun) {
		t.Errorf("before the first start: %v", err)
	}
	if n := c.Exists(t.Context(), space.Meta()).Val(); n != 0 {
		t.Error("it wrote notifier:meta")
	}

	if err := s.Learn(t.Context()); err != nil {
		t.Fatal(err)
	}
	id, err := s.Identity(t.Context())
	if err != nil || len(id) < 20 {
		t.Fatalf("%q, %v", id, err)
	}
	other, err := instance().Identity(t.Context())
	if err != nil || other != id {
		t.Errorf("another instance reads %q, %v; want %q", other, err, id)
	}

	// Another Redis answers.
	if err := c.HSet(t.Context(), space.Meta(), "id", "other").Err(); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Identity(t.Context()); err != nil || got != "other" {
		t.Errorf("of another Redis: %q, %v", got, err)
	}

	// An empty Redis gets the id that the instance knows, after the layout.
	if err := c.Del(t.Context(), space.Meta(), space.Layout(0)).Err(); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Identity(t.Context()); err != nil || got != "other" {
		t.Errorf("of an empty Redis: %q, %v", got, err)
	}
	if err := s.Known(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, err := instance().Identity(t.Context()); err != nil || got == "" || got == "other" {
		t.Errorf("an instance that knows nothing: %q, %v", got, err)
	}
}

func TestIdentityHoldsWhileRedisIsUnavailable(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := over(t, srv.Client(), "notifier", Options{})
	if err := s.Learn(t.Context()); err != nil {
		t.Fatal(err)
	}
	id, err := s.Identity(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	srv.Kill()
	if got, err := s.Identity(t.Context()); err != nil || got != id {
		t.Errorf("%q, %v; want %q", got, err, id)
	}
}
