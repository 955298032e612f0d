package store

import (
	"context"
	"errors"
	"testing"
	"time"

	"notifier/internal/keys"
	"notifier/internal/testkit"
	"notifier/internal/wire"
)

func TestIdentityIsWrittenOnce(t *testing.T) {
	t.Parallel()
	srv := testkit.SharedRedis(t)
	c, space := srv.Client(), keys.Space{Namespace: srv.Namespace(), Shards: 1}
	instance := func() *Layout { return overLayout(t, c, srv.Namespace(), LayoutOptions{}) }
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

	// An empty Redis gets a new id, not the one that the instance knows.
	if err := c.Del(t.Context(), space.Meta(), space.Layout(0)).Err(); err != nil {
		t.Fatal(err)
	}
	got, err := s.Identity(t.Context())
	if err != nil || got == "" || got == "other" || got == id {
		t.Errorf("of an empty Redis: %q, %v", got, err)
	}
	if other, err := instance().Identity(t.Context()); err != nil || other != got {
		t.Errorf("an instance that knows nothing: %q, %v; want %q", other, err, got)
	}
}

// replacements is a Watcher that notes replaced data.
type replacements struct {
	unwatched
	list []Replaced
}

func (r *replacements) DataReplaced(x Replaced) { r.list = append(r.list, x) }

// Regression test: an emptied Redis was filled again without a word, with the known id.
func TestReplacedDataAreReportedByEachInstance(t *testing.T) {
	t.Parallel()
	srv := testkit.StartRedis(t)
	c, space := srv.Client(), keys.Space{Namespace: "notifier", Shards: 1}
	var heard [2]replacements
	var all [2]*Layout
	for i := range all {
		all[i] = overLayout(t, c, "notifier", LayoutOptions{Watcher: &heard[i]})
		if err := all[i].Learn(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	check := func(step string, n int) {
		t.Helper()
		for i, s := range all {
			if err := s.Check(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := heard[i].list; len(got) != n {
				t.Errorf("%s: instance %d reports %+v, want %d", step, i, got, n)
			}
		}
	}
	id := c.HGet(t.Context(), space.Meta(), "id").Val()
	if copied := c.HGet(t.Context(), space.Layout(0), "id").Val(); id == "" || copied != id {
		t.Errorf("the first start writes the id %q, its copy is %q", id, copied)
	}
	check("at first", 0)
	kept := c.Dump(t.Context(), space.Meta()).Val()
	part := c.Dump(t.Context(), space.Layout(0)).Val()
	if err := c.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	check("emptied", 1)
	if got := heard[1].list[0]; got.Place != -1 || got.Was != id || got.Now != c.HGet(t.Context(), space.Meta(), "id").Val() {
		t.Errorf("%+v", got)
	}

	// The known data return.
	for name, dump := range map[string]string{space.Meta(): kept, space.Layout(0): part} {
		if err := c.RestoreReplace(t.Context(), name, 0, dump).Err(); err != nil {
			t.Fatal(err)
		}
	}
	check("returned", 2)
	if got := heard[1].list[1]; got.Now != id {
		t.Errorf("%+v", got)
	}

	// One shard is lost, and the first instance writes its layout again.
	if err := c.Del(t.Context(), space.Layout(0)).Err(); err != nil {
		t.Fatal(err)
	}
	check("one shard", 3)
	if got := heard[1].list[2]; got.Place != 0 || got.Was == got.Now {
		t.Errorf("%+v", got)
	}
}

// countingWatcher counts the pending notices while a loss is reported.
type countingWatcher struct {
	unwatched
	count func() (map[int]int64, error)
	by    map[int]int64
	err   error
}

func (w *countingWatcher) DataReplaced(Replaced) { w.by, w.err = w.count() }

// Regression test: before the loss of the data was reported, the emptied Redis was counted in their place: 0 notices.
func TestEmptiedRedisIsNotCountedBeforeItsLossIsReported(t *testing.T) {
	t.Parallel()
	srv := testkit.StartRedis(t)
	w := &countingWatcher{}
	s := New(Options{Client: srv.Client(), Space: keys.Space{Namespace: "notifier", Shards: 1}, Prefixes: []string{prefix},
		Retention: time.Hour, Retain: 10, Watcher: w})
	if err := s.Layout.Learn(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.count = func() (map[int]int64, error) {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond) // the layout is being read
		defer cancel()
		return s.CountPending(ctx)
	}
	s.put(t, Request{Key: "app1:a:b:1", Delay: time.Hour})
	for _, lost := range []func() error{
		func() error { return srv.Client().FlushAll(t.Context()).Err() },
		func() error { return srv.Client().Del(t.Context(), s.Space().Layout(0)).Err() },
	} {
		if err := lost(); err != nil {
			t.Fatal(err)
		}
		w.err = nil
		if err := s.Layout.Check(t.Context()); err != nil {
			t.Fatal(err)
		}
		if w.err == nil {
			t.Errorf("counted %v during the report", w.by)
		}
		if by, err := s.CountPending(t.Context()); err != nil || by[0] != 0 {
			t.Errorf("counted %v, %v after the report", by, err)
		}
	}
}

// Neither a migration to this Redis nor the end of a Redis that was left is a loss.
func TestMigrationIsNoLoss(t *testing.T) {
	t.Parallel()
	s, srv := openLayout(t, LayoutOptions{Watcher: &replacements{}})
	if err := s.Learn(t.Context()); err != nil {
		t.Fatal(err)
	}
	heard := &replacements{}
	other := overLayout(t, srv.Client(), srv.Namespace(), LayoutOptions{Watcher: heard})
	if err := other.Learn(t.Context()); err != nil {
		t.Fatal(err)
	}
	fields, err := s.TakeIdentity(t.Context(), "of the source")
	if err != nil {
		t.Fatal(err)
	}
	side, err := s.SetSide(t.Context(), s.Side(), Side{State: SideComing, ID: "m", Other: "o"}, fields...)
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	if id, err := other.Identity(t.Context()); err != nil || id != "of the source" {
		t.Errorf("%q, %v", id, err)
	}
	if copied := srv.Client().HGet(t.Context(), s.Space().Layout(0), "id").Val(); copied != "of the source" {
		t.Errorf("the shard's copy is %q", copied)
	}
	if _, err := s.SetSide(t.Context(), side, Side{State: SideLeft, ID: "m", Other: "o"}); err != nil {
		t.Fatal(err)
	}
	if err := other.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := srv.Client().Del(t.Context(), s.Space().Meta(), s.Space().Layout(0)).Err(); err != nil {
		t.Fatal(err)
	}
	if err := other.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(heard.list) > 0 {
		t.Errorf("reported: %+v", heard.list)
	}
}

func TestIdentityHoldsWhileRedisIsUnavailable(t *testing.T) {
	t.Parallel()
	srv := testkit.StartRedis(t)
	s := overLayout(t, srv.Client(), "notifier", LayoutOptions{})
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
