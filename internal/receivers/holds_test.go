package receivers

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/embedded"
	"notifier/internal/keys"
	"notifier/internal/store"
	"notifier/internal/testkit"
	"notifier/internal/wire"
)

// A turn succeeds only if the read that failed before has succeeded: without Redis, no turn does.
func TestWalkerFailsUntilRedisAnswers(t *testing.T) {
	srv := testkit.SharedRedis(t)
	c := wire.New(wire.Options{Client: srv.Client(), Space: keys.Space{Namespace: srv.Namespace(), Shards: 1}})
	l := store.NewLayout(c, store.LayoutOptions{Prefixes: []string{"app1"}})
	h := NewHolds(l)
	if err := errors.Join(l.Learn(t.Context()), h.Follow(t.Context())); err != nil {
		t.Fatal(err)
	}
	w := &Walker{Holds: h, Layout: l}
	if next, err := w.turn(t.Context()); err != nil || next < time.Second {
		t.Fatalf("next turn in %s, %v", next, err)
	}
	w.orphans = time.Now()
	_ = c.Redis.Close()
	for range 3 {
		if _, err := w.turn(t.Context()); !errors.Is(err, wire.ErrUnavailable) {
			t.Errorf("without Redis: %v", err)
		}
	}
}

func TestTableFindsPausesAndLimits(t *testing.T) {
	now := time.UnixMilli(1_800_000_000_000)
	table := newHoldTable(7, map[string]string{
		"host/a.example/":           `{"at":1}`,
		"host/a.example:8443/app1":  `{"at":1,"until":1800000060000}`,
		"host/b.example/app1:x":     `{"at":1,"until":1799999999999}`,
		"host/c.example/":           `{"at":1,"resumed":1,"over":60000}`,
		"audience/buyer-7/app1":     `{"at":1}`,
		"limit/a.example/":          `{"at":1,"rate":5,"concurrency":2}`,
		"limit/a.example:8443/app1": `{"at":1,"rate":7,"concurrency":1}`,
		"later/a.example/":          `{"at":1}`,
		"host/broken.example/":      `{`,
	})
	for _, c := range []struct{ key, host, audience, want string }{
		{"app1:x:y:1", "a.example:443", "", "host/a.example/"},
		{"app1:x:y:1", "a.example:8443", "", "host/a.example/"}, // it ends last
		{"app1:x:y:1", "b.example:443", "", ""},                 // it has ended
		{"app1:x:y:1", "c.example:443", "", ""},                 // it was resumed
		{"app1:x:y:1", "broken.example:443", "", ""},
		{"app1:x:y:1", "", "buyer-7", "audience/buyer-7/app1"},
		{"app12:x:y:1", "", "buyer-7", ""},
	} {
		got := ""
		if p := table.Held(c.key, c.host, c.audience, now); p != nil {
			got = p.String()
		}
		if got != c.want {
			t.Errorf("%v: %q", c, got)
		}
	}
	if p := table.Held("app1:x:y:1", "b.example:443", "", now.Add(-time.Hour)); p == nil || p.Prefix != "app1:x" {
		t.Errorf("before its end: %v", p)
	}
	for _, c := range []struct {
		prefix, host string
		rate         float64
		concurrency  int
	}{{"app1", "a.example:443", 5, 2}, {"app1:x", "a.example:8443", 5, 1}, {"app2", "a.example:8443", 5, 2}, {"app1", "b.example:443", 0, 0}} {
		if rate, n := table.Limit(c.prefix, c.host); rate != c.rate || n != c.concurrency {
			t.Errorf("%v: %g, %d", c, rate, n)
		}
	}
}

// An instance whose clock is 40 days ahead of Redis's neither ends the pauses of others nor refuses an end that is in the
// future by Redis's clock.
func TestPauseEndsByRedisClock(t *testing.T) {
	t.Parallel()
	em, err := embedded.NewEmulation()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(em.Close)
	client := redis.NewClient(&redis.Options{Dialer: func(context.Context, string, string) (net.Conn, error) { return em.Dial() }})
	t.Cleanup(func() { _ = client.Close() })
	c := wire.New(wire.Options{Client: client, Space: keys.Space{Namespace: "notifier", Shards: 1}})
	l := store.NewLayout(c, store.LayoutOptions{Prefixes: []string{"app1"}})
	h := NewHolds(l)
	const ahead = 40 * 24 * time.Hour
	em.Leap(-ahead)
	now := time.Now().Add(-ahead)
	ctx := t.Context()
	if err := errors.Join(l.Learn(ctx), h.Pause(ctx, Author{}, Receiver{Host: "a.example"}, now.Add(time.Hour), 0)); err != nil {
		t.Fatal(err)
	}
	if err := h.Pause(ctx, Author{}, Receiver{Host: "a.example"}, now.Add(-time.Minute), 0); !errors.Is(err, ErrUntil) {
		t.Errorf("until a minute ago: %v", err)
	}
	w := &Walker{Holds: h, Layout: l}
	left := func() int {
		t.Helper()
		next, err := w.Walk(ctx)
		if err := errors.Join(err, h.Follow(ctx)); err != nil || next > time.Hour {
			t.Errorf("next walk in %s, %v", next, err)
		}
		return len(h.Table().Pauses())
	}
	if left(); left() != 1 {
		t.Error("the pause was removed an hour before its end")
	}
	em.Leap(time.Hour + 2*readBy)
	if left(); left() != 0 {
		t.Error("the pause is stored after its end")
	}
}
