package store

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"notifier/internal/keys"
	"notifier/internal/testkit"
	"notifier/internal/wire"
)

// receiverLayout is a layout of several shards.
func receiverLayout(t *testing.T, shards int) *Layout {
	t.Helper()
	srv := testkit.SharedRedis(t)
	w := wire.New(wire.Options{Client: srv.Client(), Space: keys.Space{Namespace: srv.Namespace(), Shards: shards}})
	s := NewLayout(w, LayoutOptions{Prefixes: []string{"app1"}})
	if err := s.Learn(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestClientCannotUseUpAnothersReceivers(t *testing.T) {
	t.Parallel()
	s := receiverLayout(t, 1)
	set := func(client, name, value string) error {
		_, err := s.SetReceiver(t.Context(), ReceiverChange{Field: "host/" + name + "/app1", Value: value, Client: client, Most: 3})
		return err
	}
	full := func(err error) bool {
		var f *FullError
		return errors.As(err, &f) && f.Most == 3 && !f.All
	}
	for i := range 3 {
		if err := errors.Join(set("a", fmt.Sprint("a", i), "}"), set("a", fmt.Sprint("a", i), `,"over":1}`)); err != nil {
			t.Fatal(err) // a change of an entry is not counted again
		}
	}
	if err := set("a", "a3", "}"); !full(err) {
		t.Errorf("a client has more than its share: %v", err)
	}
	for i := range 3 {
		if err := set("b", fmt.Sprint("b", i), "}"); err != nil {
			t.Errorf("the other client has no share: %v", err)
		}
	}
	// An operator's change leaves an entry to its maker; without it the maker may make another one.
	if err := errors.Join(set("", "a0", `,"resumed":1}`), set("b", "a0", ""), set("a", "a3", "}")); err != nil {
		t.Error(err)
	}
	if err := set("b", "b3", "}"); !full(err) {
		t.Errorf("a deletion counts for the client that made it: %v", err)
	}
	got := s.c.HMGet(t.Context(), s.space.Receivers(), "##", "#a", "#b", "#-").Val()
	if fmt.Sprint(got) != "[6 3 3 <nil>]" {
		t.Errorf("counted %v", got)
	}
	if r, err := s.Receivers(t.Context(), 0); err != nil || len(r.Values) != 6 || !strings.Contains(r.Values["host/b0/app1"], `"client":"b"`) {
		t.Errorf("%+v, %v", r, err)
	}
}

// A change writes one entry into each copy. Only a copy that lacks earlier changes is replaced.
func TestChangeOfAReceiverDoesNotRewriteTheCopies(t *testing.T) {
	t.Parallel()
	s := receiverLayout(t, 3)
	set := func(name, value string) {
		t.Helper()
		if done, err := s.SetReceiver(t.Context(), ReceiverChange{Field: name, Value: value}); err != nil || !done {
			t.Fatal(done, err)
		}
	}
	entries := func(name string) map[string]string {
		all := s.c.HGetAll(t.Context(), name).Val()
		maps.DeleteFunc(all, func(field, _ string) bool { return field == "##" || field == "#-" || field == "mark" })
		return all
	}
	same := func() {
		t.Helper()
		want := entries(s.space.Receivers())
		for shard := range 3 {
			if got := entries(s.space.ShardReceivers(shard)); !maps.Equal(got, want) {
				t.Errorf("shard %d has %v, want %v", shard, got, want)
			}
		}
	}
	marked := func(shard int) bool { return s.c.HExists(t.Context(), s.space.ShardReceivers(shard), "mark").Val() }
	set("host/a/", "}")
	for shard := range 3 {
		s.c.HSet(t.Context(), s.space.ShardReceivers(shard), "mark", "1")
	}
	set("host/b/", "}")
	set("host/a/", "")
	set("host/b/", `,"over":7}`)
	same()
	if !marked(0) || !marked(1) || !marked(2) {
		t.Error("a copy was rewritten")
	}
	s.c.HSet(t.Context(), s.space.ShardReceivers(1), "#", "1") // as after a failover that lost changes
	set("host/c/", "}")
	same()
	if marked(1) {
		t.Error("a copy that lacked changes was not replaced")
	}
}
