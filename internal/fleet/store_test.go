package fleet

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keys"
	"notifier/internal/layout"
	"notifier/internal/redistest"
	"notifier/internal/wire/wiretest"
)

func (s *Store) beat(t *testing.T, b Beat) Roll {
	t.Helper()
	r, err := s.Beat(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// subscribed opens the line of an instance and waits until it is confirmed.
func (s *Store) subscribed(t *testing.T, id string) Line {
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

func (r Roll) sign(id string) *Sign {
	for i := range r.Signs {
		if r.Signs[i].ID == id {
			return &r.Signs[i]
		}
	}
	return nil
}

func TestBeat(t *testing.T) {
	t.Parallel()
	s, _ := openStore(t)
	r := s.beat(t, Beat{ID: "a", About: `{"label":"x"}`, Figures: "1"})
	if r.Known || r.Ended || r.Connections != 0 || len(r.Signs) != 1 || r.sign("a").Bound || r.sign("a").At != r.Now {
		t.Errorf("%+v", r)
	}
	if d := time.Since(time.UnixMilli(r.Now)); d < -time.Minute || d > time.Minute {
		t.Errorf("now is %s ago", d)
	}
	la := s.subscribed(t, "a")
	if r = s.beat(t, Beat{ID: "a"}); !r.Known || r.Connections != 1 || !r.sign("a").Bound {
		t.Errorf("%+v", r)
	}
	r = s.beat(t, Beat{ID: "b", Leaving: true, Ask: []string{"nobody", "a"}})
	if a, b := r.sign("a"), r.sign("b"); a == nil || b == nil || a.Connections != 1 || b.Connections != -1 || !b.Leaving || b.Bound || a.Leaving {
		t.Errorf("%+v", r)
	}
	if h, err := la.Next(t.Context()); err != nil || h.Text != "joined b" {
		t.Errorf("%+v, %v", h, err)
	}
	told, err := s.Told(t.Context(), []string{"b", "a"})
	if err != nil || len(told) != 2 || told[0] != (Told{}) || told[1] != (Told{About: `{"label":"x"}`, Figures: "1"}) {
		t.Errorf("%+v, %v", told, err)
	}
	if err := s.Tell(t.Context(), "a", "hello"); err != nil {
		t.Error(err)
	}
	if h, err := la.Next(t.Context()); err != nil || h.Text != "hello" {
		t.Errorf("%+v, %v", h, err)
	}
	if now, list, err := s.Signs(t.Context()); err != nil || len(list) != 2 || list[0].ID != "b" || !list[1].Bound || now < r.Now {
		t.Errorf("%d, %+v, %v", now, list, err)
	}
}

func TestLeaveIsHeardAndLeavesNothing(t *testing.T) {
	t.Parallel()
	s, srv := openStore(t)
	s.beat(t, Beat{ID: "a"})
	s.beat(t, Beat{ID: "b", About: "{}", Figures: "{}"})
	l := s.subscribed(t, "a")
	if err := s.Leave(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	if h, err := l.Next(t.Context()); err != nil || h.Text != "left b" {
		t.Errorf("%+v, %v", h, err)
	}
	r := s.beat(t, Beat{ID: "a"})
	if r.sign("b") != nil || len(r.Departures) != 1 || r.Departures[0] != (Departure{ID: "b"}) {
		t.Errorf("%+v", r)
	}
	if n := srv.Client().Exists(t.Context(), s.w.Space.FleetAbout()).Val(); n != 0 {
		t.Error("what it told is still there")
	}
	// A sign of life that was sent before and arrives later is not taken.
	if r = s.beat(t, Beat{ID: "b"}); !r.Ended || len(r.Signs) != 0 {
		t.Errorf("%+v", r)
	}
	if r = s.beat(t, Beat{ID: "a", Since: r.Now + 1e6}); len(r.Departures) != 1 {
		t.Errorf("a time that lies ahead hides who ended: %+v", r)
	}
}

func TestCountOut(t *testing.T) {
	t.Parallel()
	s, _ := openStore(t)
	s.beat(t, Beat{ID: "a"})
	gone := *s.beat(t, Beat{ID: "b"}).sign("b")
	out := func() bool {
		t.Helper()
		done, err := s.CountOut(t.Context(), gone, "a")
		if err != nil {
			t.Fatal(err)
		}
		return done
	}
	if out() {
		t.Error("counted out by one that has no connection itself")
	}
	s.subscribed(t, "a")
	lb := s.subscribed(t, "b")
	if out() {
		t.Error("counted out although it has a connection")
	}
	_ = lb.Close()
	// sleep: the server notices a closed connection a moment later
	for r := (Roll{}); r.sign("b") == nil || r.sign("b").Connections != 0; time.Sleep(5 * time.Millisecond) {
		r = s.beat(t, Beat{ID: "a", Ask: []string{"b"}})
	}
	time.Sleep(2 * time.Millisecond) // sleep: the next sign needs another millisecond
	s.beat(t, Beat{ID: "b"})
	if out() {
		t.Error("counted out although it has given a sign since")
	}
	gone = *s.beat(t, Beat{ID: "a"}).sign("b")
	if !out() || out() {
		t.Error("not counted out, or twice")
	}
	if r := s.beat(t, Beat{ID: "a"}); len(r.Departures) != 1 || r.Departures[0] != (Departure{ID: "b", Gone: true}) || r.sign("b") != nil {
		t.Errorf("%+v", r)
	}
	if r := s.beat(t, Beat{ID: "b"}); !r.Ended {
		t.Errorf("%+v", r)
	}
	// Its own farewell does not change what it was.
	if err := s.Leave(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	if r := s.beat(t, Beat{ID: "a"}); !r.Departures[0].Gone {
		t.Errorf("%+v", r)
	}
}

// Whatever stands in the fleet's keys, a sign of life brings no more than its
// bound, and what is old or lies ahead goes.
func TestBeatAmongGarbage(t *testing.T) {
	t.Parallel()
	s, srv := openStore(t)
	ctx := t.Context()
	c := srv.Client()
	now := s.beat(t, Beat{ID: "a"}).Now
	var signs, ended []redis.Z
	for i := range 3000 {
		signs = append(signs, redis.Z{Member: fmt.Sprint("live", i), Score: float64(now - int64(i))})
		ended = append(ended, redis.Z{Member: fmt.Sprint("end", i), Score: float64(now - int64(i))})
	}
	for i := range 80 {
		signs = append(signs, redis.Z{Member: fmt.Sprint("old", i), Score: float64(i)}, redis.Z{Member: fmt.Sprint("ahead", i), Score: 1e15})
	}
	c.ZAdd(ctx, s.w.Space.FleetSigns(), signs...)
	c.ZAdd(ctx, s.w.Space.FleetEnded(), ended...)
	c.Do(ctx, "ZADD", s.w.Space.FleetSigns(), "+inf", "for ever", "-inf", "never")
	c.HSet(ctx, s.w.Space.FleetAbout(), "old1", "x", "a", strings.Repeat("x", 1<<20))
	ask := make([]string, 500)
	for i := range ask {
		ask[i] = fmt.Sprint("live", i)
	}
	r := s.beat(t, Beat{ID: "a", Ask: ask})
	if len(r.Signs) > maxInstances || len(r.Departures) > maxInstances || r.sign("a") == nil {
		t.Errorf("%d signs, %d departures", len(r.Signs), len(r.Departures))
	}
	s.beat(t, Beat{ID: "a"})
	for _, bad := range []string{"old1", "ahead1", "for ever", "never"} {
		if c.ZScore(ctx, s.w.Space.FleetSigns(), bad).Err() == nil {
			t.Errorf("%s is still there", bad)
		}
	}
	if c.HExists(ctx, s.w.Space.FleetAbout(), "old1").Val() {
		t.Error("what an old one told is still there")
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
		if _, err := s.Beat(ctx, Beat{ID: "a", About: "x"}); err == nil || !strings.Contains(err.Error(), "WRONGTYPE") {
			t.Errorf("%s: %v", key, err)
		}
	}
	for _, key := range []string{s.w.Space.FleetSigns(), s.w.Space.FleetAbout()} {
		c.Set(ctx, key, "x", 0)
	}
	if _, _, err := s.Signs(ctx); !errors.Is(err, ErrForeign) {
		t.Errorf("signs: %v, want ErrForeign", err)
	}
	if _, err := s.Told(ctx, []string{"a"}); !errors.Is(err, ErrForeign) {
		t.Errorf("told: %v, want ErrForeign", err)
	}
}

// limited is a store whose user may all but some commands.
func limited(t *testing.T, srv *redistest.Server, name string, rules ...string) *Store {
	t.Helper()
	if err := srv.Client().ACLSetUser(t.Context(), name, append([]string{"on", "nopass", "~*", "&*", "+@all"}, rules...)...).Err(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { srv.Client().ACLDelUser(context.Background(), name) })
	return storeOn(t, strings.Replace(srv.URL(), "redis://", "redis://"+name+":x@", 1), srv.Namespace())
}

func TestBeatWhereNumsubIsForbidden(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := limited(t, srv, "deaf", "-pubsub")
	s.subscribed(t, "a")
	r := s.beat(t, Beat{ID: "a", Ask: []string{"b"}})
	if r.Connections != -1 || r.sign("a").Bound {
		t.Errorf("%+v", r)
	}
	if r = s.beat(t, Beat{ID: "b", Ask: []string{"a"}}); r.sign("a").Connections != -1 {
		t.Errorf("%+v", r)
	}
	if out, err := s.CountOut(t.Context(), *r.sign("b"), "a"); out || err != nil {
		t.Errorf("%t, %v", out, err)
	}
}

// A full Redis makes nobody look dead.
func TestBeatWhereRedisIsFull(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t, redistest.WithConfig("maxmemory 1mb", "maxmemory-policy noeviction"))
	s := storeOn(t, srv.URL(), srv.Namespace())
	srv.Client().Set(t.Context(), "fills", strings.Repeat("x", 1<<20), 0)
	if err := srv.Client().Set(t.Context(), "more", "x", 0).Err(); err == nil {
		t.Fatal("Redis is not full")
	}
	if r := s.beat(t, Beat{ID: "a", About: "{}"}); len(r.Signs) != 1 {
		t.Errorf("%+v", r)
	}
	if err := s.Leave(t.Context(), "a"); err != nil {
		t.Error(err)
	}
}

func TestBeatAfterARestart(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := storeOn(t, srv.URL(), srv.Namespace())
	s.beat(t, Beat{ID: "a"})
	srv.Restart()
	for begun := time.Now(); ; {
		r, err := s.Beat(t.Context(), Beat{ID: "a"})
		if err == nil {
			if r.Known || len(r.Signs) != 1 {
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

func TestTheFleetsKeysShareASlot(t *testing.T) {
	t.Parallel()
	s := keys.Space{Namespace: "n"}
	for _, k := range []string{s.FleetSigns(), s.FleetAbout(), s.FleetEnded(), s.FleetChannel(), s.InstanceChannel("x")} {
		if !strings.HasPrefix(k, "n:{fleet}:") {
			t.Error(k)
		}
	}
}

func BenchmarkBeat(b *testing.B) {
	for _, n := range []int{1, 8, 64} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			srv := redistest.Shared(b)
			s := storeOn(b, srv.URL(), srv.Namespace())
			for i := range n {
				if _, err := s.Beat(b.Context(), Beat{ID: fmt.Sprintf("abcdefgh%04d", i)}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.Beat(b.Context(), Beat{ID: "abcdefgh0000"}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func openStore(t *testing.T) (*Store, *redistest.Server) {
	t.Helper()
	w, srv := wiretest.Open(t)
	return NewStore(layout.New(w, layout.Options{Prefixes: []string{"app1"}})), srv
}

func storeOn(t testing.TB, url, namespace string) *Store {
	t.Helper()
	return NewStore(layout.New(wiretest.On(t, url, namespace), layout.Options{Prefixes: []string{"app1"}}))
}
