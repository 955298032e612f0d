package store

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keys"
	"notifier/internal/notice"
	"notifier/internal/testkit"
)

// grow puts n other shards in the place of those there are.
func (s *Store) grow(t *testing.T, n int) {
	t.Helper()
	if err := s.Layout.Learn(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Layout.Announce(t.Context(), s.space.Replace(n, false)); err != nil {
		t.Fatal(err)
	}
}

// schedule is one request under the route that its key has.
func (s *Store) schedule(t *testing.T, r Request) Reply {
	t.Helper()
	out, err := s.Schedule(t.Context(), s.space.Partition(prefix, r.Key), []Request{r})
	if err != nil {
		t.Fatal(err)
	}
	return out[0]
}

// move brings some keys where they belong, and says how many went and were held.
func (s *Store) move(t *testing.T, ks ...string) (gone, held int) {
	t.Helper()
	for _, k := range ks {
		for _, home := range s.space.Homes(k) {
			l, n, err := s.Layout.MoveOut(t.Context(), keys.Partition{Prefix: prefix, Shard: home}, s.space.Shard(k), []string{k})
			if err != nil {
				t.Fatal(err)
			}
			held += n.All()
			if l.Len() == 0 {
				continue
			}
			gone++
			stay, err := s.Layout.MoveIn(t.Context(), l)
			if err != nil || len(stay) > 0 {
				t.Fatal(stay, err)
			}
			if err := s.Layout.MoveEnd(t.Context(), l, stay); err != nil {
				t.Fatal(err)
			}
		}
	}
	return gone, held
}

// lies returns the places that have a record of a key.
func (s *Store) lies(t *testing.T, srv *testkit.Redis, key string) (places []int) {
	t.Helper()
	for place := range s.space.Places() {
		if srv.Client().HExists(t.Context(), s.space.Records(keys.Partition{Prefix: prefix, Shard: place}), key).Val() {
			places = append(places, place)
		}
	}
	return places
}

// A notice is found, changed, repeated and replaced before, during and after its move. No second
// notice is created.
func TestANoticeIsOneOnEitherSide(t *testing.T) {
	const key = "app1:a:b:1"
	type step func(t *testing.T, s *Store)
	out := func(t *testing.T, s *Store) {
		l, _, err := s.Layout.MoveOut(t.Context(), keys.Partition{Prefix: prefix}, s.space.Shard(key), []string{key})
		if err != nil || l.Len() != 1 {
			t.Fatal(l, err)
		}
	}
	arrived := func(t *testing.T, s *Store) {
		out(t, s)
		l, err := s.Layout.outstanding(t.Context(), 0)
		if err != nil || l == nil {
			t.Fatal(l, err)
		}
		if _, err := s.Layout.MoveIn(t.Context(), *l); err != nil {
			t.Fatal(err)
		}
	}
	for name, before := range map[string]step{"before": func(*testing.T, *Store) {}, "on its way": out, "arrived": arrived,
		"moved": func(t *testing.T, s *Store) { s.move(t, key) }} {
		t.Run(name, func(t *testing.T) {
			s, srv := open(t)
			asleep := New(s.o)
			was := s.put(t, Request{Key: key, Delay: time.Hour, Content: body(`{"a":1}`)})
			if _, err := asleep.Find(t.Context(), prefix, key); err != nil {
				t.Fatal(err)
			}
			s.grow(t, 6)
			before(t, s)
			for who, x := range map[string]*Store{"who announced": s, "who slept": asleep, "who begins": New(Options{Client: s.o.Client,
				Space: s.space.Now(), Prefixes: s.o.Prefixes, Retention: time.Hour, Retain: 10})} {
				f, err := x.Find(t.Context(), prefix, key)
				if err != nil || f.ID() != was.ID() || f.State != notice.Scheduled {
					t.Fatalf("%s: %+v, %v", who, f, err)
				}
				if r := x.schedule(t, Request{Key: key, Delay: time.Hour, Content: body(`{"a":1}`)}); r.Created || len(r.Differs) > 0 ||
					r.ID() != was.ID() {
					t.Errorf("%s repeats it: %+v", who, r)
				}
				if r := x.schedule(t, Request{Key: key, Content: body(`{"a":2}`)}); r.Created || !slices.Equal(r.Differs, []string{"body"}) {
					t.Errorf("%s asks for another: %+v", who, r)
				}
				c, err := x.Amend(t.Context(), prefix, key, Reschedule, When{Delay: 2 * time.Hour})
				if err != nil || !c.Done || c.Before != notice.Scheduled {
					t.Errorf("%s moves it: %+v, %v", who, c, err)
				}
				if n := s.lies(t, srv, key); len(n) != 1 {
					t.Fatalf("%s: it is in %v", who, n)
				}
			}
			if c, err := asleep.Amend(t.Context(), prefix, key, Cancel, When{}); err != nil || !c.Done {
				t.Errorf("cancelled: %+v, %v", c, err)
			}
			next := s.schedule(t, Request{Key: key, Delay: time.Hour, OnDuplicate: Replace, Content: body(`{"a":3}`)})
			if !next.Created || !next.Replaced || next.ID() == was.ID() || string(next.Body) != `{"a":3}` {
				t.Errorf("replaced: %+v", next)
			}
			if f, err := asleep.Find(t.Context(), prefix, key); err != nil || f.ID() != next.ID() || string(f.Body) != `{"a":3}` ||
				f.State != notice.Scheduled {
				t.Errorf("%+v, %v", f, err)
			}
			if n := s.lies(t, srv, key); len(n) != 1 {
				t.Fatalf("it is in %v", n)
			}
			if at, err := srv.Client().PExpireTime(t.Context(), key).Result(); err != nil || at.Milliseconds() != next.Due.UnixMilli()-1 {
				t.Errorf("the timer: %v, %v", at, err)
			}
		})
	}
}

// An instance that missed the change of shards adds nothing to an old shard. Its earlier claims
// there stay valid.
func TestWhoSleptThroughAReshard(t *testing.T) {
	s, srv := open(t)
	asleep := New(s.o)
	const held, fresh = "app1:a:b:held", "app1:a:b:fresh"
	asleep.put(t, Request{Key: held, Content: body("1")})
	c := asleep.take(t, held, "t")
	s.grow(t, 3)
	if gone, n := s.move(t, held); gone != 0 || n != 1 {
		t.Fatalf("the claimed notice was moved: %d, %d", gone, n)
	}
	if n, err := s.Layout.Drained(t.Context(), nil); err != nil || n != 1 {
		t.Fatalf("%d former shards hold something, %v", n, err)
	}
	p := asleep.space.Partition(prefix, fresh) // with its old layout
	if p.Shard != 0 {
		t.Fatal("it knows already")
	}
	out, err := asleep.Schedule(t.Context(), p, []Request{{Key: fresh, Content: body("2")}})
	if err != nil || !out[0].Created {
		t.Fatalf("%+v, %v", out, err)
	}
	if at := s.lies(t, srv, fresh); len(at) != 1 || at[0] < s.space.First() {
		t.Errorf("it is in %v", at)
	}
	if got := asleep.end(t, Settlement{Claim: c, Ending: EndDelivered}); got.Stale {
		t.Error("the settle did not count")
	}
	if gone, n := s.move(t, held); gone != 1 || n != 0 {
		t.Errorf("%d went, %d are held", gone, n)
	}
	if n, err := s.Layout.Drained(t.Context(), nil); err != nil || n != 0 || len(s.Layout.OldShards()) != 0 {
		t.Errorf("%d, %v, %v", n, s.Layout.OldShards(), err)
	}
	f, err := asleep.Find(t.Context(), prefix, held)
	if err != nil || f.State != notice.Delivered || f.Shard < s.space.First() {
		t.Errorf("%+v, %v", f, err)
	}
}

// A late call from before a reshard changes nothing, and imports no batch twice.
func TestWhatComesLateIsPassedOver(t *testing.T) {
	s, srv := open(t)
	c := srv.Client()
	const key = "app1:a:b:1"
	s.put(t, Request{Key: key, Delay: time.Hour, Content: body("1")})
	before := s.Layout.view.Load().State
	s.grow(t, 2)
	// An instance that had read notifier:meta before, and writes now.
	reply, err := c.Eval(t.Context(), registerSource, []string{s.space.Layout(0), s.space.ShardRoutes(0)}, Version, 1, "1", "", "",
		"", "", 1, 0, "", "", "part", prefix).Slice()
	if err != nil || reply[0] != "" {
		t.Errorf("%v, %v", reply, err)
	}
	for place := range s.space.Places() {
		if state := c.HGet(t.Context(), s.space.Layout(place), "state").Val(); state == before || state != s.Layout.view.Load().State {
			t.Errorf("place %d has the state %q", place, state)
		}
	}
	l, _, err := s.Layout.MoveOut(t.Context(), keys.Partition{Prefix: prefix}, s.space.Shard(key), []string{key})
	if err != nil || l.Len() != 1 {
		t.Fatal(l, err)
	}
	if _, _, err := s.Layout.MoveOut(t.Context(), keys.Partition{Prefix: prefix}, s.space.Shard(key), []string{key}); !errors.Is(err,
		ErrMoving) {
		t.Errorf("two batches at a time: %v", err)
	}
	if err := s.Layout.Finish(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if c, err := s.Amend(t.Context(), prefix, key, Cancel, When{}); err != nil || !c.Done {
		t.Fatal(c, err)
	}
	s.erase(t, s.space.Partition(prefix, key), key)
	// Who began it wakes up.
	stay, err := s.Layout.MoveIn(t.Context(), l)
	if err != nil || len(stay) != 0 {
		t.Errorf("%v, %v", stay, err)
	}
	if err := s.Layout.MoveEnd(t.Context(), l, stay); err != nil {
		t.Error(err)
	}
	if at := s.lies(t, srv, key); len(at) != 0 {
		t.Errorf("it was exported again, in %v", at)
	}
}

// A second reshard before the end of the first one: notices in the oldest shards are found, and
// move to the newest shards.
func TestTwoReshards(t *testing.T) {
	s, srv := open(t)
	var ks []string
	for i := range 40 {
		ks = append(ks, fmt.Sprintf("app1:a:b:%d", i))
		s.put(t, Request{Key: ks[i], Delay: time.Hour, Content: body("1")})
	}
	s.grow(t, 4)
	s.move(t, ks[:20]...)
	for i := 40; i < 50; i++ {
		ks = append(ks, fmt.Sprintf("app1:a:b:%d", i))
		s.schedule(t, Request{Key: ks[i], Delay: time.Hour, Content: body("1")})
	}
	l, _, err := s.Layout.MoveOut(t.Context(), keys.Partition{Prefix: prefix}, s.space.Shard(ks[20]), ks[20:21])
	if err != nil || l.Len() != 1 {
		t.Fatal(l, err)
	}
	asleep := New(s.o)
	if err := asleep.Layout.Learn(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.grow(t, 2)
	for _, x := range []*Store{asleep, s} {
		for _, k := range ks {
			if f, err := x.Find(t.Context(), prefix, k); err != nil || f.State != notice.Scheduled {
				t.Fatalf("%s: %+v, %v", k, f, err)
			}
			if r := x.schedule(t, Request{Key: k, Content: body("1")}); r.Created {
				t.Errorf("%s twice", k)
			}
		}
	}
	s.move(t, ks...)
	for _, k := range ks {
		if at := s.lies(t, srv, k); len(at) != 1 || at[0] != s.space.Shard(k) {
			t.Errorf("%s is in %v, want %d", k, at, s.space.Shard(k))
		}
	}
	if n, err := s.Layout.Drained(t.Context(), nil); err != nil || n != 0 {
		t.Errorf("%d, %v", n, err)
	}
	again, _, err := Discover(t.Context(), s.o.Client, keys.Space{Namespace: s.space.Namespace, Shards: 4}, false)
	if err != nil || again.Shards != 2 || again.First() != 5 {
		t.Errorf("%+v, %v", again, err)
	}
}

// Dead letters and settled notices move with their times. A claim with an expired lease stays until
// it is claimed again, because its settle is still valid.
func TestEachStateGoesAlong(t *testing.T) {
	s, srv := open(t)
	ks := map[notice.State]string{notice.Dead: "app1:a:b:dead", notice.Delivered: "app1:a:b:delivered",
		notice.Cancelled: "app1:a:b:cancelled", notice.Scheduled: "app1:a:b:scheduled"}
	for state, k := range ks {
		s.put(t, Request{Key: k, Content: body("1")})
		switch state {
		case notice.Dead:
			c := s.take(t, k, "t")
			c.Reason = notice.ReasonGone
			s.end(t, Settlement{Claim: c, Ending: EndDead})
		case notice.Delivered:
			s.end(t, Settlement{Claim: s.take(t, k, "t"), Ending: EndDelivered})
		case notice.Cancelled:
			if _, err := s.Amend(t.Context(), prefix, k, Cancel, When{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	const lapsed = "app1:a:b:lapsed"
	s.put(t, Request{Key: lapsed, Content: body("1")})
	c := s.take(t, lapsed, "t")
	if err := srv.Client().Del(t.Context(), s.space.ClaimPrefix(0)+lapsed).Err(); err != nil {
		t.Fatal(err)
	}
	was := map[string]Found{}
	for _, k := range ks {
		was[k], _ = s.Find(t.Context(), prefix, k)
	}
	s.grow(t, 3)
	for state, k := range ks {
		if gone, _ := s.move(t, k); gone != 1 {
			t.Errorf("%s stays", k)
		}
		f, err := s.Find(t.Context(), prefix, k)
		w := was[k]
		if err != nil || f.State != state || !f.SettledAt.Equal(w.SettledAt) || f.ID() != w.ID() || f.record != w.record || f.Shard == w.Shard {
			t.Errorf("%+v, %v; was %+v", f, err, w)
		}
	}
	if gone, held := s.move(t, lapsed); gone != 0 || held != 1 {
		t.Errorf("what lapsed went: %d %d", gone, held)
	}
	if got := s.end(t, Settlement{Claim: c, Ending: EndDelivered}); got.Stale {
		t.Error("its settle did not count")
	}
	if n, _, err := s.AmendMany(t.Context(), Redrive, []Amended{{Prefix: prefix, Key: ks[notice.Dead]}}); n != 1 || err != nil {
		t.Errorf("%d redriven, %v", n, err)
	}
}

// A notice in the target was written by a producer that does not know of reshards. Neither notice
// is lost.
func TestWhatIsInTheWay(t *testing.T) {
	s, srv := open(t)
	asleep := New(s.o)
	if err := asleep.Layout.Learn(t.Context()); err != nil {
		t.Fatal(err)
	}
	const ended, pending, same = "app1:a:b:ended", "app1:a:b:pending", "app1:a:b:same"
	s.grow(t, 2)
	for _, k := range []string{ended, pending} {
		s.schedule(t, Request{Key: k, Delay: time.Hour, Content: body("new")})
	}
	if _, err := s.Amend(t.Context(), prefix, ended, Cancel, When{}); err != nil {
		t.Fatal(err)
	}
	former := keys.Partition{Prefix: prefix}
	for _, k := range []string{ended, pending, same} {
		srv.Client().HSet(t.Context(), s.space.Records(former), k, `{"due":9000000000000,"made":10000000000001,"text":"old"}`)
		srv.Client().ZAdd(t.Context(), s.space.Shadow(former), redisZ(9000000000000, k))
	}
	if n, err := s.Layout.Drained(t.Context(), nil); n != 1 || err != nil {
		t.Fatalf("%d, %v", n, err)
	}
	for _, k := range []string{ended, pending, same} {
		l, _, err := s.Layout.MoveOut(t.Context(), former, s.space.Shard(k), []string{k})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Layout.MoveIn(t.Context(), l); err != nil { // the answer is lost
			t.Fatal(err)
		}
		if err := s.Layout.Finish(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
	}
	for k, want := range map[string][]int{ended: {s.space.Shard(ended)}, pending: {0, s.space.Shard(pending)}, same: {s.space.Shard(same)}} {
		if at := s.lies(t, srv, k); !slices.Equal(at, want) {
			t.Errorf("%s is in %v, want %v", k, at, want)
		}
	}
	if f, err := s.Find(t.Context(), prefix, ended); err != nil || f.State != notice.Scheduled || string(f.Body) != "old" {
		t.Errorf("%+v, %v", f, err)
	}
	if n := srv.Client().ZCard(t.Context(), s.space.Shadow(former)).Val(); n != 1 {
		t.Errorf("%d are pending in the former shard", n)
	}
}

// A page's cursor from before a reshard goes on nowhere.
func TestCursorsOfBeforeAReshardAreRefused(t *testing.T) {
	s, _ := open(t)
	for i := range 5 {
		s.put(t, Request{Key: fmt.Sprintf("app1:a:b:%d", i), Delay: time.Hour, Content: body("1")})
	}
	q := Query{Routes: []string{prefix}, Limit: 2}
	p, err := s.List(t.Context(), q)
	if err != nil || p.Cursor == "" {
		t.Fatal(p, err)
	}
	s.grow(t, 2)
	q.Cursor = p.Cursor
	if _, err := s.List(t.Context(), q); !errors.Is(err, ErrCursor) {
		t.Errorf("%v", err)
	}
	s.move(t, "app1:a:b:0", "app1:a:b:3")
	seen := map[string]int{}
	for q.Cursor = ""; ; q.Cursor = p.Cursor {
		if p, err = s.List(t.Context(), q); err != nil {
			t.Fatal(err)
		}
		for _, f := range p.Items {
			seen[f.Key]++
		}
		if p.Cursor == "" {
			break
		}
	}
	if len(seen) != 5 {
		t.Errorf("%v", seen)
	}
}

func redisZ(score float64, member string) redis.Z { return redis.Z{Score: score, Member: member} }

// A producer's own script gets the shard of a key, and is refused until all notices are in current
// shards.
func TestProducersFindTheShard(t *testing.T) {
	s, srv := open(t)
	c := srv.Client()
	p := newProducer(t, s)
	run := func(tag, key string) (int64, error) {
		four := s.space.States(keys.Partition{Prefix: prefix})
		for i := range four {
			four[i] = strings.Replace(four[i], "{0}", "{"+tag+"}", 1)
		}
		return p.Run(t.Context(), c, append(four, key), key, "+3600000", "reject", `{"n":1}`).Int64()
	}
	if due, err := run("0", "app1:a:b:before"); err != nil || due == 0 {
		t.Fatal(due, err)
	}
	s.grow(t, 5)
	refused := func(tag, key, want string) {
		t.Helper()
		if _, err := run(tag, key); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("{%s}: %v, want %q", tag, err, want)
		}
	}
	keyOf := func(i int) string {
		return fmt.Sprintf("app1:a:b:%d%s", i/2, []string{"", "~12", "~123456789", "~1234567890"}[i%4])
	}
	for i := range 40 {
		key := keyOf(i)
		tag := s.space.Tag(s.space.Shard(key))
		refused("0", key, "a reshard has replaced the shard {0}: name {"+tag+"}")
		other := s.space.Tag(s.space.First() + (s.space.Shard(key)-s.space.First()+1)%5)
		refused(other, key, "the key does not belong to the shard {"+other+"}: name {"+tag+"}")
		refused(tag, key, "are being moved")
	}
	s.move(t, "app1:a:b:before")
	if n, err := s.Layout.Drained(t.Context(), nil); n != 0 || err != nil {
		t.Fatal(n, err)
	}
	for i := range 40 {
		key := keyOf(i)
		if due, err := run(s.space.Tag(s.space.Shard(key)), key); err != nil || due == 0 {
			t.Errorf("%s: %d, %v", key, due, err)
		}
		if f, err := s.Find(t.Context(), prefix, key); err != nil || f.State != notice.Scheduled {
			t.Errorf("%+v, %v", f, err)
		}
	}
}

// During a reshard dead letters and pending notices are restored as after it: each notice is
// in one place.
func TestRestoreDuringReshard(t *testing.T) {
	s, srv := historic(t, 1000)
	const dead, purged, pending = "app1:a:b:dead", "app1:a:b:purged", "app1:a:b:pending"
	var letters []Letter
	for _, k := range []string{dead, purged, pending} {
		s.put(t, Request{Key: k, Delay: 0, Content: body("1")})
		if k == pending {
			f, _ := s.Find(t.Context(), prefix, k)
			letters = append(letters, Letter{Notice: f.Notice})
			continue
		}
		c := s.take(t, k, "t")
		c.Reason = notice.ReasonGone
		s.end(t, Settlement{Claim: c, Ending: EndDead})
		f, _ := s.Find(t.Context(), prefix, k)
		letters = append(letters, Letter{f.Notice, f.SettledAt})
	}
	if _, err := s.Amend(t.Context(), prefix, purged, Purge, When{}); err != nil {
		t.Fatal(err)
	}
	s.grow(t, 3)
	got, err := s.Restore(t.Context(), s.space.Partition(prefix, dead), letters)
	if err != nil || len(got) != 3 || got[0].Created || got[0].Err != nil || !got[1].Created || got[1].Err != nil || got[2].Created ||
		got[2].Err != nil {
		t.Errorf("%+v, %v", got, err)
	}
	for k, state := range map[string]notice.State{dead: notice.Dead, purged: notice.Dead, pending: notice.Scheduled} {
		if f, err := s.Find(t.Context(), prefix, k); err != nil || f.State != state || len(s.lies(t, srv, k)) != 1 {
			t.Errorf("%s: %+v, %v, in %v", k, f, err, s.lies(t, srv, k))
		}
	}
}
