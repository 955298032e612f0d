package store

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keys"
	"notifier/internal/layout"
	"notifier/internal/notice"
	"notifier/internal/redistest"
)

// A Redis that has come back without its last writes, amid a reshard.

// writes has all that lies under keys that match written down, and gives back what makes
// Redis forget what comes after: all of it, as one server does, or that of one place, as a
// node of a cluster does.
func writes(t *testing.T, srv *redistest.Server, match string) (forget func()) {
	t.Helper()
	c := srv.Client()
	list := func() []string {
		ks, err := c.Keys(t.Context(), match).Result()
		if err != nil {
			t.Fatal(err)
		}
		return ks
	}
	type kept struct {
		text string
		at   time.Duration
	}
	was := map[string]kept{}
	for _, k := range list() {
		text, err := c.Dump(t.Context(), k).Result()
		if err != nil {
			t.Fatal(err)
		}
		was[k] = kept{text, c.PExpireTime(t.Context(), k).Val()}
	}
	return func() {
		t.Helper()
		_, err := c.TxPipelined(t.Context(), func(p redis.Pipeliner) error {
			for _, k := range list() {
				p.Del(t.Context(), k)
			}
			for k, x := range was {
				p.Restore(t.Context(), k, 0, x.text)
				if x.at > 0 {
					p.PExpireAt(t.Context(), k, time.UnixMilli(x.at.Milliseconds()))
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

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
	out := func(k string) layout.Moving {
		t.Helper()
		l, _, err := s.MoveOut(t.Context(), keys.Partition{Prefix: prefix}, 1, []string{k})
		if err != nil || l.Len() != 1 {
			t.Fatal(l, err)
		}
		return l
	}
	in := func(l layout.Moving) {
		t.Helper()
		if stay, err := s.MoveIn(t.Context(), l); err != nil || len(stay) > 0 {
			t.Fatal(stay, err)
		}
	}
	forget := writes(t, srv, "*")
	gone := out(first)
	forget()
	in(gone)
	l := out(second)
	in(gone)
	in(l)
	for _, l := range []layout.Moving{gone, l} {
		if err := s.MoveEnd(t.Context(), l, nil); err != nil {
			t.Fatal(err)
		}
	}
	if a, b := s.lies(t, srv, first), s.lies(t, srv, second); !slices.Equal(a, []int{0}) || !slices.Equal(b, []int{1}) {
		t.Fatalf("what has never left lies in %v, what has in %v", a, b)
	}
	s.move(t, first)
	if a := s.lies(t, srv, first); !slices.Equal(a, []int{1}) {
		t.Fatalf("moved again, it lies in %v", a)
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
			if r, err := s.Restore(t.Context(), s.space.Partition(prefix, key), []Letter{{Notice: was.Notice}}); err != nil || r[0].Created || r[0].Err != nil {
				t.Fatal(r, err)
			}
		},
		"replay": func(t *testing.T, s *Store, was Reply) {
			n := &notice.Notice{Key: key, Route: prefix, Made: was.Made, Content: was.Content}
			r, err := s.Replay(t.Context(), Replay{Mark: "r", Shard: s.space.Shard(key)}, []ReplayItem{{Number: 1, Notice: n}})
			if err != nil || r[0].Result != "pending" {
				t.Fatal(r, err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, srv := open(t)
			was := s.put(t, Request{Key: key, Delay: time.Hour, Content: body("1")})
			s.grow(t, 3)
			forget := writes(t, srv, "*")
			s.move(t, key)
			if left, err := s.Drained(t.Context(), nil); err != nil || left > 0 || len(s.Formers()) > 0 {
				t.Fatal(left, s.Formers(), err)
			}
			forget()
			call(t, s, was)
			if at := s.lies(t, srv, key); !slices.Equal(at, []int{0}) {
				t.Fatalf("it lies in %v", at)
			}
			s.move(t, key)
			if left, err := s.Drained(t.Context(), nil); err != nil || left > 0 || len(s.Formers()) > 0 {
				t.Fatal(left, s.Formers(), err)
			}
		})
	}
}

// Shards that Redis has forgotten to have been announced are announced again by whoever
// knows of them; if others have been announced since, who knows of the first ones does
// nothing more.
func TestAReshardThatRedisHasForgottenIsAnnouncedAgain(t *testing.T) {
	t.Parallel()
	const key = "app1:a:b:1"
	s, srv := open(t)
	asleep := New(s.o)
	was := s.put(t, Request{Key: key, Delay: time.Hour, Content: body("1")})
	if err := asleep.Learn(t.Context()); err != nil {
		t.Fatal(err)
	}
	forget := writes(t, srv, "*")
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
		t.Fatalf("it lies in %v", at)
	}

	forget()
	other := New(Options{Client: s.o.Client, Space: keys.Space{Namespace: s.space.Namespace, Shards: 1}, Prefixes: s.o.Prefixes, Retention: time.Hour, Retain: 10})
	other.grow(t, 2)
	if err := s.Learn(t.Context()); !errors.Is(err, layout.ErrLayout) {
		t.Fatalf("others have taken the place of its shards: %v", err)
	}
}

// What a node of a cluster has forgotten to have left it lies at two nodes; what is at the
// node where it went holds, and it is not delivered from there again.
func TestWhatANodeForgotToHaveLeftIsOnce(t *testing.T) {
	t.Parallel()
	const key = "app1:a:b:1"
	s, srv := open(t)
	was := s.put(t, Request{Key: key, Content: body("1")})
	s.grow(t, 1)
	forget := writes(t, srv, s.space.Base(0)+"*")
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
		t.Fatalf("it lies in %v", at)
	}
	if f, err := s.Find(t.Context(), prefix, key); err != nil || f.ID() != was.ID() || f.State != notice.Delivered {
		t.Fatalf("%+v, %v", f, err)
	}
}
