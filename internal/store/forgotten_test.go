package store

import (
	"errors"
	"slices"
	"testing"
	"time"

	"notifier/internal/keys"
	"notifier/internal/notice"
)

// A Redis that has lost its last writes during a reshard.

// A batch whose leaving Redis has forgotten arrives nowhere, and another one is not taken
// for it.
func TestABatchThatRedisHasForgottenIsNoOther(t *testing.T) {
	t.Parallel()
	const first, second = "app1:a:b:1", "app1:a:b:2"
	s, srv := open(t)
	for _, k := range []string{first, second} {
		s.put(t, Request{Key: k, Delay: time.Hour, Content: body("1")})
	}
	s.grow(t, 1)
	out := func(k string) Moving {
		t.Helper()
		l, _, err := s.Layout.MoveOut(t.Context(), keys.Partition{Prefix: prefix}, 1, []string{k})
		if err != nil || l.Len() != 1 {
			t.Fatal(l, err)
		}
		return l
	}
	in := func(l Moving) {
		t.Helper()
		if stay, err := s.Layout.MoveIn(t.Context(), l); err != nil || len(stay) > 0 {
			t.Fatal(stay, err)
		}
	}
	forget := srv.Snapshot(t, "*")
	gone := out(first)
	forget()
	in(gone)
	l := out(second)
	in(gone)
	in(l)
	for _, l := range []Moving{gone, l} {
		if err := s.Layout.MoveEnd(t.Context(), l, nil); err != nil {
			t.Fatal(err)
		}
	}
	if a, b := s.lies(t, srv, first), s.lies(t, srv, second); !slices.Equal(a, []int{0}) || !slices.Equal(b, []int{1}) {
		t.Fatalf("the notice that stayed is in %v, the moved one in %v", a, b)
	}
	s.move(t, first)
	if a := s.lies(t, srv, first); !slices.Equal(a, []int{1}) {
		t.Fatalf("moved again, it is in %v", a)
	}
}

// What Redis has forgotten to have left a former shard is found there, though all had
// been seen to be empty.
func TestWhatIsBackInAFormerShardIsFound(t *testing.T) {
	t.Parallel()
	const key = "app1:a:b:1"
	for name, call := range map[string]func(t *testing.T, s *Store, was Reply){
		"find": func(t *testing.T, s *Store, was Reply) {
			if f, err := s.Find(t.Context(), prefix, key); err != nil || f.ID() != was.ID() {
				t.Fatal(f, err)
			}
		},
		"schedule": func(t *testing.T, s *Store, was Reply) {
			if r := s.schedule(t, Request{Key: key, Delay: time.Hour, Content: body("1")}); r.Err != nil || r.Created || r.ID() != was.ID() {
				t.Fatalf("%+v", r)
			}
		},
		"replace": func(t *testing.T, s *Store, _ Reply) {
			if r := s.schedule(t, Request{Key: key, Delay: time.Hour, OnDuplicate: Replace, Content: body("2")}); !r.Created || !r.Replaced {
				t.Fatalf("%+v", r)
			}
		},
		"cancel": func(t *testing.T, s *Store, _ Reply) {
			if c, err := s.Amend(t.Context(), prefix, key, Cancel, When{}); err != nil || !c.Done {
				t.Fatal(c, err)
			}
		},
		"cancel many": func(t *testing.T, s *Store, _ Reply) {
			if n, lost, err := s.AmendMany(t.Context(), Cancel, []Amended{{Prefix: prefix, Key: key}}); err != nil || n != 1 || len(lost) > 0 {
				t.Fatal(n, lost, err)
			}
		},
		"put back": func(t *testing.T, s *Store, was Reply) {
			if r, err := s.Restore(t.Context(), s.space.Partition(prefix, key), []Letter{{Notice: was.Notice}}); err != nil || r[0].Created ||
				r[0].Err != nil {
				t.Fatal(r, err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, srv := open(t)
			was := s.put(t, Request{Key: key, Delay: time.Hour, Content: body("1")})
			s.grow(t, 3)
			forget := srv.Snapshot(t, "*")
			s.move(t, key)
			if left, err := s.Layout.Drained(t.Context(), nil); err != nil || left > 0 || len(s.Layout.OldShards()) > 0 {
				t.Fatal(left, s.Layout.OldShards(), err)
			}
			forget()
			call(t, s, was)
			if at := s.lies(t, srv, key); !slices.Equal(at, []int{0}) {
				t.Fatalf("it is in %v", at)
			}
			s.move(t, key)
			if left, err := s.Layout.Drained(t.Context(), nil); err != nil || left > 0 || len(s.Layout.OldShards()) > 0 {
				t.Fatal(left, s.Layout.OldShards(), err)
			}
		})
	}
}

// If Redis loses an announcement of shards, an instance that knows the shards announces them again,
// unless other shards were announced since.
func TestAReshardThatRedisHasForgottenIsAnnouncedAgain(t *testing.T) {
	t.Parallel()
	const key = "app1:a:b:1"
	s, srv := open(t)
	asleep := New(s.o)
	was := s.put(t, Request{Key: key, Delay: time.Hour, Content: body("1")})
	if err := asleep.Layout.Learn(t.Context()); err != nil {
		t.Fatal(err)
	}
	forget := srv.Snapshot(t, "*")
	s.grow(t, 3)
	forget()
	if r := s.schedule(t, Request{Key: key, Delay: time.Hour, Content: body("1")}); r.Err != nil || r.Created || r.ID() != was.ID() {
		t.Fatalf("%+v", r)
	}
	if f, err := asleep.Find(t.Context(), prefix, key); err != nil || f.ID() != was.ID() || !asleep.space.Same(s.space) {
		t.Fatalf("%+v, %v; %+v", f, err, asleep.space.Now())
	}
	s.move(t, key)
	if at := s.lies(t, srv, key); !slices.Equal(at, []int{s.space.Shard(key)}) {
		t.Fatalf("it is in %v", at)
	}

	forget()
	other := New(Options{Client: s.o.Client, Space: keys.Space{Namespace: s.space.Namespace, Shards: 1}, Prefixes: s.o.Prefixes,
		Retention: time.Hour, Retain: 10})
	other.grow(t, 2)
	if err := s.Layout.Learn(t.Context()); !errors.Is(err, ErrLayout) {
		t.Fatalf("others have taken the place of its shards: %v", err)
	}
}

// If a node of a cluster loses an export, two nodes store the notice. The target's copy is valid,
// and the source does not deliver its copy.
func TestWhatANodeForgotToHaveLeftIsOnce(t *testing.T) {
	t.Parallel()
	const key = "app1:a:b:1"
	s, srv := open(t)
	was := s.put(t, Request{Key: key, Content: body("1")})
	s.grow(t, 1)
	forget := srv.Snapshot(t, s.space.Base(0)+"*")
	s.move(t, key)
	at := keys.Partition{Prefix: prefix, Shard: 1}
	c, err := s.ClaimKeys(t.Context(), at, Lease{Token: "t", For: lease}, []string{key})
	if err != nil || len(c.Won) != 1 {
		t.Fatal(c, err)
	}
	if _, err := s.Settle(t.Context(), at, []Settlement{{Claim: c.Won[0], Ending: EndDelivered}}); err != nil {
		t.Fatal(err)
	}
	forget()
	s.move(t, key)
	if at := s.lies(t, srv, key); !slices.Equal(at, []int{1}) {
		t.Fatalf("it is in %v", at)
	}
	if f, err := s.Find(t.Context(), prefix, key); err != nil || f.ID() != was.ID() || f.State != notice.Delivered {
		t.Fatalf("%+v, %v", f, err)
	}
}
