package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keys"
	"notifier/internal/store"
	"notifier/internal/testkit"
	"notifier/internal/wire"
)

func (s *Store) beat(t *testing.T, b Heartbeat) Roster {
	t.Helper()
	r, err := s.Publish(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// subscribed opens the subscription of an instance and waits until it is confirmed.
func (s *Store) subscribed(t *testing.T, id string) Subscription {
	t.Helper()
	l, err := s.Listen(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	if h, err := l.Next(t.Context()); err != nil || !h.Subscribed {
		t.Fatalf("%+v, %v", h, err)
	}
	return l
}

func (r Roster) heartbeat(id string) *LastHeartbeat {
	for i := range r.Heartbeats {
		if r.Heartbeats[i].ID == id {
			return &r.Heartbeats[i]
		}
	}
	return nil
}

func TestPublishReturnsRoster(t *testing.T) {
	t.Parallel()
	s, _ := openStore(t)
	r := s.beat(t, Heartbeat{ID: "a", About: `{"label":"x"}`, Figures: "1"})
	if r.Known || r.Ended || r.Connections != 0 || len(r.Heartbeats) != 1 || r.heartbeat("a").Bound || r.heartbeat("a").At != r.Now {
		t.Errorf("%+v", r)
	}
	if d := time.Since(time.UnixMilli(r.Now)); d < -time.Minute || d > time.Minute {
		t.Errorf("now is %s ago", d)
	}
	la := s.subscribed(t, "a")
	if r = s.beat(t, Heartbeat{ID: "a"}); !r.Known || r.Connections != 1 || !r.heartbeat("a").Bound {
		t.Errorf("%+v", r)
	}
	r = s.beat(t, Heartbeat{ID: "b", Leaving: true, Ask: []string{"nobody", "a"}})
	if a, b := r.heartbeat("a"), r.heartbeat("b"); a == nil || b == nil || a.Connections != 1 || b.Connections != -1 || !b.Leaving ||
		b.Bound || a.Leaving {
		t.Errorf("%+v", r)
	}
	if h, err := la.Next(t.Context()); err != nil || h.Text != "joined b" {
		t.Errorf("%+v, %v", h, err)
	}
	described, err := s.Descriptions(t.Context(), []string{"b", "a"})
	if err != nil || len(described) != 2 || described[0] != (Description{}) || described[1] != (Description{About: `{"label":"x"}`, Figures: "1"}) {
		t.Errorf("%+v, %v", described, err)
	}
	if err := s.Send(t.Context(), "a", "hello"); err != nil {
		t.Error(err)
	}
	if h, err := la.Next(t.Context()); err != nil || h.Text != "hello" {
		t.Errorf("%+v, %v", h, err)
	}
	if now, list, err := s.Heartbeats(t.Context()); err != nil || len(list) != 2 || list[0].ID != "b" || !list[1].Bound || now < r.Now {
		t.Errorf("%d, %+v, %v", now, list, err)
	}
}

func TestLeaveRemovesInstanceAndIsAnnounced(t *testing.T) {
	t.Parallel()
	s, srv := openStore(t)
	s.beat(t, Heartbeat{ID: "a"})
	s.beat(t, Heartbeat{ID: "b", About: "{}", Figures: "{}"})
	l := s.subscribed(t, "a")
	if err := s.Leave(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	if h, err := l.Next(t.Context()); err != nil || h.Text != "left b" {
		t.Errorf("%+v, %v", h, err)
	}
	r := s.beat(t, Heartbeat{ID: "a"})
	if r.heartbeat("b") != nil || len(r.Departures) != 1 || r.Departures[0] != (Departure{ID: "b"}) {
		t.Errorf("%+v", r)
	}
	if n := srv.Client().Exists(t.Context(), s.w.Space.FleetAbout()).Val(); n != 0 {
		t.Error("its description is still stored")
	}
	// A heartbeat that was sent before and arrives later is refused.
	if r = s.beat(t, Heartbeat{ID: "b"}); !r.Ended || len(r.Heartbeats) != 0 {
		t.Errorf("%+v", r)
	}
	if r = s.beat(t, Heartbeat{ID: "a", Since: r.Now + 1e6}); len(r.Departures) != 1 || r.heartbeat("b") != nil {
		t.Errorf("a future time hides ended instances, or the refused heartbeat was stored: %+v", r)
	}
}

func TestServeRecordsThousandsOfPrefixes(t *testing.T) {
	t.Parallel()
	s, _ := openStore(t)
	var prefixes []string
	for i := range 2500 {
		prefixes = append(prefixes, fmt.Sprintf("app%d", i))
	}
	served, err := s.Serve(t.Context(), "a", prefixes, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(served["a"])
	slices.Sort(prefixes)
	if !slices.Equal(served["a"], prefixes) {
		t.Errorf("%d of %d prefixes are recorded", len(served["a"]), len(prefixes))
	}
}

// The time of the last report of a worker outlives the worker, until its prefix is forgotten.
func TestWorkersSaysWhenAPrefixWasHandled(t *testing.T) {
	t.Parallel()
	s, srv := openStore(t)
	recorded := []string{"app1:a", "app1:b"}
	entries := []string{"app1:a" + WorkerMark, "app1:a", "app1:b"}
	if _, err := s.Serve(t.Context(), "w", entries, time.Minute); err != nil {
		t.Fatal(err)
	}

	now, err := srv.Client().Time(t.Context()).Result()
	if err != nil {
		t.Fatal(err)
	}

	want := func(workers int, handled bool) {
		t.Helper()
		list, err := s.Workers(t.Context(), recorded)
		if err != nil || len(list) != 2 {
			t.Fatalf("%+v, %v", list, err)
		}
		if x := list[0]; x.Workers != workers || x.Handled.IsZero() == handled || handled && now.Sub(x.Handled).Abs() > time.Minute {
			t.Errorf("%+v, want %d workers, and a time: %t", x, workers, handled)
		}
		if x := list[1]; x.Workers != 0 || !x.Handled.IsZero() {
			t.Errorf("%+v of a prefix that only a route has", x)
		}
	}
	want(1, true)
	if err := s.Unserve(t.Context(), "w", entries); err != nil {
		t.Fatal(err)
	}

	want(0, true)
	if err := s.Forget(t.Context(), "app1:a"); err != nil {
		t.Fatal(err)
	}

	want(0, false)
}

func TestDeclareDeadChecksHeartbeatAndConnection(t *testing.T) {
	t.Parallel()
	s, srv := openStore(t)
	s.beat(t, Heartbeat{ID: "a"})
	dead := *s.beat(t, Heartbeat{ID: "b"}).heartbeat("b")
	out := func() bool {
		t.Helper()
		done, err := s.DeclareDead(t.Context(), dead, "a")
		if err != nil {
			t.Fatal(err)
		}
		return done
	}
	if out() {
		t.Error("declared dead by one that has no connection itself")
	}
	s.subscribed(t, "a")
	lb := s.subscribed(t, "b")
	if out() {
		t.Error("declared dead although it has a connection")
	}
	_ = lb.Close()
	testkit.Until(t, "the server notices the closed connection", func() bool {
		r := s.beat(t, Heartbeat{ID: "a", Ask: []string{"b"}})
		return r.heartbeat("b") != nil && r.heartbeat("b").Connections == 0
	})
	now := func() int64 { return srv.Client().Time(t.Context()).Val().UnixMilli() }
	last := now()
	testkit.Until(t, "the next heartbeat is in another millisecond", func() bool { return now() > last })
	s.beat(t, Heartbeat{ID: "b"})
	if out() {
		t.Error("declared dead although it has given a sign since")
	}
	dead = *s.beat(t, Heartbeat{ID: "a"}).heartbeat("b")
	if !out() || out() {
		t.Error("not declared dead, or twice")
	}
	if r := s.beat(t, Heartbeat{ID: "a"}); len(r.Departures) != 1 || r.Departures[0] != (Departure{ID: "b", Dead: true}) ||
		r.heartbeat("b") != nil {
		t.Errorf("%+v", r)
	}
	if r := s.beat(t, Heartbeat{ID: "b"}); !r.Ended {
		t.Errorf("%+v", r)
	}
	// Leaving does not change the mark.
	if err := s.Leave(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	if r := s.beat(t, Heartbeat{ID: "a"}); !r.Departures[0].Dead {
		t.Errorf("%+v", r)
	}
}

// A heartbeat's reply stays within its bound with foreign data in the fleet's keys, and old and
// future entries are removed.
func TestPublishIgnoresForeignData(t *testing.T) {
	t.Parallel()
	s, srv := openStore(t)
	ctx := t.Context()
	c := srv.Client()
	now := s.beat(t, Heartbeat{ID: "a"}).Now
	var heartbeats, ended []redis.Z
	for i := range 3000 {
		heartbeats = append(heartbeats, redis.Z{Member: fmt.Sprint("live", i), Score: float64(now - int64(i))})
		ended = append(ended, redis.Z{Member: fmt.Sprint("end", i), Score: float64(now - int64(i))})
	}
	for i := range 80 {
		heartbeats = append(heartbeats, redis.Z{Member: fmt.Sprint("old", i), Score: float64(i)},
			redis.Z{Member: fmt.Sprint("ahead", i), Score: 1e15})
	}
	c.ZAdd(ctx, s.w.Space.FleetSigns(), heartbeats...)
	c.ZAdd(ctx, s.w.Space.FleetEnded(), ended...)
	c.Do(ctx, "ZADD", s.w.Space.FleetSigns(), "+inf", "for ever", "-inf", "never")
	c.HSet(ctx, s.w.Space.FleetAbout(), "old1", "x", "a", strings.Repeat("x", 1<<20))
	ask := make([]string, 500)
	for i := range ask {
		ask[i] = fmt.Sprint("live", i)
	}
	r := s.beat(t, Heartbeat{ID: "a", Ask: ask})
	if len(r.Heartbeats) > maxInstances || len(r.Departures) > maxInstances || r.heartbeat("a") == nil {
		t.Errorf("%d signs, %d departures", len(r.Heartbeats), len(r.Departures))
	}
	s.beat(t, Heartbeat{ID: "a"})
	for _, bad := range []string{"old1", "ahead1", "for ever", "never"} {
		if c.ZScore(ctx, s.w.Space.FleetSigns(), bad).Err() == nil {
			t.Errorf("%s is still there", bad)
		}
	}
	if c.HExists(ctx, s.w.Space.FleetAbout(), "old1").Val() {
		t.Error("the description of an old one is still stored")
	}
	for range 25 {
		if err := s.Leave(ctx, "z"); err != nil {
			t.Fatal(err)
		}
	}
	if n := c.ZCard(ctx, s.w.Space.FleetEnded()).Val(); n > 1000 {
		t.Errorf("%d marks are kept", n)
	}
	// Another type is an error, and no panic.
	for _, key := range s.fleetKeys() {
		c.Del(ctx, s.fleetKeys()...)
		c.Set(ctx, key, "x", 0)
		if _, err := s.Publish(ctx, Heartbeat{ID: "a", About: "x"}); err == nil || !strings.Contains(err.Error(), "WRONGTYPE") {
			t.Errorf("%s: %v", key, err)
		}
	}
	for _, key := range []string{s.w.Space.FleetSigns(), s.w.Space.FleetAbout()} {
		c.Set(ctx, key, "x", 0)
	}
	if _, _, err := s.Heartbeats(ctx); !errors.Is(err, ErrForeign) {
		t.Errorf("signs: %v, want ErrForeign", err)
	}
	if _, err := s.Descriptions(ctx, []string{"a"}); !errors.Is(err, ErrForeign) {
		t.Errorf("told: %v, want ErrForeign", err)
	}
}

// limited is a store whose user may all but some commands.
func limited(t *testing.T, srv *testkit.Redis, name string, rules ...string) *Store {
	t.Helper()
	if err := srv.Client().ACLSetUser(t.Context(), name, append([]string{"on", "nopass", "~*", "&*", "+@all"},
		rules...)...).Err(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { srv.Client().ACLDelUser(context.Background(), name) })
	return storeOn(t, strings.Replace(srv.URL(), "redis://", "redis://"+name+":x@", 1), srv.Namespace())
}

func TestPublishWorksWithoutNumsub(t *testing.T) {
	t.Parallel()
	srv := testkit.StartRedis(t)
	s := limited(t, srv, "deaf", "-pubsub")
	s.subscribed(t, "a")
	r := s.beat(t, Heartbeat{ID: "a", Ask: []string{"b"}})
	if r.Connections != -1 || r.heartbeat("a").Bound {
		t.Errorf("%+v", r)
	}
	if r = s.beat(t, Heartbeat{ID: "b", Ask: []string{"a"}}); r.heartbeat("a").Connections != -1 {
		t.Errorf("%+v", r)
	}
	if out, err := s.DeclareDead(t.Context(), *r.heartbeat("b"), "a"); out || err != nil {
		t.Errorf("%t, %v", out, err)
	}
}

// A full Redis makes no instance look dead.
func TestPublishWorksInFullRedis(t *testing.T) {
	t.Parallel()
	srv := testkit.StartRedis(t, testkit.WithConfig("maxmemory 1mb", "maxmemory-policy noeviction"))
	s := storeOn(t, srv.URL(), srv.Namespace())
	srv.Client().Set(t.Context(), "fills", strings.Repeat("x", 1<<20), 0)
	if err := srv.Client().Set(t.Context(), "more", "x", 0).Err(); err == nil {
		t.Fatal("Redis is not full")
	}
	if r := s.beat(t, Heartbeat{ID: "a", About: "{}"}); len(r.Heartbeats) != 1 {
		t.Errorf("%+v", r)
	}
	if err := s.Leave(t.Context(), "a"); err != nil {
		t.Error(err)
	}
}

func TestPublishWorksAfterRestart(t *testing.T) {
	t.Parallel()
	srv := testkit.StartRedis(t)
	s := storeOn(t, srv.URL(), srv.Namespace())
	s.beat(t, Heartbeat{ID: "a"})
	srv.Restart()
	for begun := time.Now(); ; {
		r, err := s.Publish(t.Context(), Heartbeat{ID: "a"})
		if err == nil {
			if r.Known || len(r.Heartbeats) != 1 {
				t.Errorf("%+v", r)
			}
			break
		}
		if time.Since(begun) > 30*time.Second {
			t.Fatal(err)
		}
	}
	if err := s.Leave(t.Context(), "a"); err != nil {
		t.Error(err)
	}
}

// Two databases of one server share the channels of pub/sub, and may have the same namespace. Nor is an instance of one database
// counted as connected because one of the other has its id.
func TestChannelsOfAnotherDatabaseAreSeparate(t *testing.T) {
	t.Parallel()
	production, staging := testkit.SharedRedis(t), testkit.SharedRedis(t)
	theirs, ours := storeOn(t, production.URL(), production.Namespace()), storeOn(t, staging.URL(), production.Namespace())
	l, err := ours.Listen(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	if m, err := l.Next(t.Context()); err != nil || !m.Subscribed {
		t.Fatalf("%+v, %v", m, err)
	}
	if err := errors.Join(theirs.Send(t.Context(), "a", "theirs"), theirs.Send(t.Context(), "", "theirs"),
		ours.Send(t.Context(), "", "ours")); err != nil {
		t.Fatal(err)
	}
	if m, err := l.Next(t.Context()); err != nil || m.Text != "ours" {
		t.Errorf("%+v, %v, want the message of the own database", m, err)
	}
	if r, err := theirs.Publish(t.Context(), Heartbeat{ID: "a"}); err != nil || r.Connections != 0 {
		t.Errorf("%+v, %v, want no connection", r, err)
	}
}

func TestFleetKeysShareSlot(t *testing.T) {
	t.Parallel()
	s := keys.Space{Namespace: "n"}
	for _, k := range []string{s.FleetSigns(), s.FleetAbout(), s.FleetEnded(), s.FleetChannel(0), s.InstanceChannel(0, "x")} {
		if !strings.HasPrefix(k, "n:{fleet}:") {
			t.Error(k)
		}
	}
}

func BenchmarkPublish(b *testing.B) {
	for _, n := range []int{1, 8, 64} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			srv := testkit.SharedRedis(b)
			s := storeOn(b, srv.URL(), srv.Namespace())
			for i := range n {
				if _, err := s.Publish(b.Context(), Heartbeat{ID: fmt.Sprintf("abcdefgh%04d", i)}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.Publish(b.Context(), Heartbeat{ID: "abcdefgh0000"}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func openStore(t *testing.T) (*Store, *testkit.Redis) {
	t.Helper()
	srv := testkit.SharedRedis(t)
	return storeOn(t, srv.URL(), srv.Namespace()), srv
}

func storeOn(t testing.TB, url, namespace string) *Store {
	t.Helper()
	w := wire.New(wire.Options{Client: testkit.Client(t, url), Space: keys.Space{Namespace: namespace, Shards: 1}})
	if err := w.Detect(t.Context()); err != nil {
		t.Fatal(err)
	}

	return NewStore(store.NewLayout(w, store.LayoutOptions{Prefixes: []string{"app1"}}))
}
