package intake

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"notifier/internal/keys"
	"notifier/internal/store"
	"notifier/internal/testkit"
	"notifier/internal/wire"
)

// counts counts new notices, and those of them without a body.
type counts struct{ adopted, lost atomic.Int64 }

func (c *counts) Scheduled(_ string, n int)  { c.adopted.Add(int64(n)) }
func (c *counts) BodiesLost(_ string, n int) { c.lost.Add(int64(n)) }

// twoNodes is a store in a cluster of two nodes. Keys with b in their names, and shard 1, are on
// node b, which can be made to hang.
type twoNodes struct {
	AdopterStore
	space keys.Space

	mu      sync.Mutex
	hangs   bool
	adopted map[string]bool
	news    chan string

	timers map[string]string // by key, in TestPayloadsAreKeptWhileANodeHangs
	bodies map[string]string // of notices, "-" without a body
}

func (*twoNodes) Masters(context.Context, func(context.Context, redis.Cmdable) error) error {
	return nil
}

func (s *twoNodes) Master(_ context.Context, key string) string {
	if key == s.space.Base(1) || strings.Contains(key, ":at-b:") {
		return "b"
	}
	return "a"
}

func (s *twoNodes) hang(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hangs = on
}

func (s *twoNodes) Where(_ context.Context, ks []string) ([]int, error) {
	at := make([]int, len(ks))
	for i, k := range ks {
		at[i] = s.space.Shard(k)
	}
	return at, nil
}

func (s *twoNodes) Peek(ctx context.Context, p keys.Partition, ks []string, _ int64) (time.Time, []Seen, int, error) {
	needsB := s.Master(ctx, s.space.Base(p.Shard)) == "b"
	var seen []Seen
	for _, k := range ks {
		needsB = needsB || s.Master(ctx, k) == "b"
		seen = append(seen, Seen{Key: k, Value: []byte("x"), Length: 1, Expire: time.Now().Add(time.Hour).UnixMilli()})
	}
	s.mu.Lock()
	hangs := s.hangs && needsB
	s.mu.Unlock()
	if hangs {
		<-ctx.Done()
		return time.Time{}, nil, 0, fmt.Errorf("peek: %w: %w", wire.ErrUnavailable, ctx.Err())
	}
	return time.Now(), seen, len(ks), nil
}

func (s *twoNodes) Adopt(_ context.Context, _ keys.Partition, list []Adoption) ([]bool, error) {
	done := make([]bool, len(list))
	for i := range list {
		s.mu.Lock()
		s.adopted[list[i].Key] = true
		s.mu.Unlock()
		done[i] = true
		s.news <- list[i].Key
	}
	return done, nil
}

func (s *twoNodes) Timers(context.Context, func(context.Context, func(context.Context, redis.Cmdable) error) error, string, int64,
	func(context.Context, []string) error) error {
	return nil
}

// While a node hangs, timers that need it wait. All other timers are adopted as usual, including
// new ones. When the node answers again, none is missing.
func TestHangingNodeDoesNotDelayOtherTimers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &twoNodes{space: keys.Space{Namespace: "notifier", Shards: 2}, adopted: map[string]bool{}, news: make(chan string, 1000),
			hangs: true}
		a := NewAdopter(AdopterOptions{Store: s, Routes: adoptingTable(t), Space: s.space, MaxBody: 1 << 10, Cluster: s,
			Logger: zap.NewNop()})
		r := a.o.Routes.All()[0]
		defer runs(t, a)()
		set := map[string]bool{} // keys, and whether they need b
		put := func(round int) (healthy int) {
			for i := range 40 {
				at := []string{"at-a", "at-b"}[i%2]
				k := fmt.Sprintf("app1:%s:x:%d-%d", at, round, i)
				if set[k] = at == "at-b" || s.space.Shard(k) == 1; !set[k] {
					healthy++
				}
				a.Event(r, k, "set")
			}
			return healthy
		}
		await := func(n int, limit time.Duration) {
			t.Helper()
			end := time.After(limit)
			for i := range n {
				select {
				case k := <-s.news:
					s.mu.Lock()
					if s.hangs && set[k] {
						t.Errorf("%s was adopted without its node", k)
					}
					s.mu.Unlock()
				case <-end:
					t.Fatalf("%d of %d adopted after %s", i, n, limit)
				}
			}
		}
		for round := range 4 { // the first of them may be looked at with some that wait for b, the rest after that
			await(put(round), 3*callLimitApart)
		}
		why := a.FollowEach(t.Context(), []string{"app1:at-b:x:1", "app1:at-a:x:2"})
		if err := why["app1:at-b:x:1"]; !errors.Is(err, wire.ErrUnavailable) {
			t.Errorf("%v: of a timer at b", why)
		}
		s.hang(false)
		testkit.Await(t, func() error {
			s.mu.Lock()
			defer s.mu.Unlock()
			for k := range set {
				if !s.adopted[k] {
					return fmt.Errorf("%s was forgotten", k)
				}
			}
			return nil
		})
	})
}

func (*twoNodes) Stranded(_ context.Context, ks []string) ([]bool, error) {
	return make([]bool, len(ks)), nil
}

func (s *twoNodes) PeekTimers(ctx context.Context, ks []string, _ int64) (seen []Seen, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range ks {
		if s.hangs && s.Master(ctx, k) == "b" {
			return nil, wire.ErrUnavailable
		}
		v, there := s.timers[k]
		w := Seen{Key: k, Length: NoKey}
		if there {
			w = Seen{Key: k, Value: []byte(v), Length: int64(len(v)), Expire: time.Now().Add(time.Hour).UnixMilli()}
		}
		seen = append(seen, w)
	}
	return seen, nil
}

func (*twoNodes) Unknown(_ context.Context, _ keys.Partition, ks []string, _ time.Duration) (none, old []string, err error) {
	return ks, nil, nil
}

func (s *twoNodes) Schedule(_ context.Context, _ keys.Partition, reqs []store.Request) ([]store.Reply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	replies := make([]store.Reply, len(reqs))
	for i, r := range reqs {
		replies[i].Created = true
		s.bodies[r.Key] = string(r.Body)
		if r.Lost {
			s.bodies[r.Key] = "-"
		}
	}
	return replies, nil
}

// expiring is a twoNodes whose timers expire before the reply to a check.
type expiring struct{ *twoNodes }

func (s expiring) Peek(ctx context.Context, p keys.Partition, ks []string, most int64) (now time.Time, seen []Seen, n int,
	err error) {
	if now, seen, n, err = s.twoNodes.Peek(ctx, p, ks, most); err != nil {
		return now, nil, n, err
	}
	for i := range seen {
		seen[i] = Seen{Key: seen[i].Key, Length: NoKey}
	}
	return now, seen, n, nil
}

// Timers of a healthy node expire while the node of their notices hangs. Their notices get the last
// payload that was set, and deleted timers get none.
func TestPayloadsAreKeptWhileANodeHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &twoNodes{space: keys.Space{Namespace: "notifier", Shards: 2}, timers: map[string]string{}, bodies: map[string]string{}, hangs: true}
		seen := &counts{}
		a := NewAdopter(AdopterOptions{Store: expiring{s}, Routes: adoptingTable(t), Space: s.space, MaxBody: 1 << 10, Cluster: s, Observer: seen,
			Logger: zap.NewNop()})
		r := a.o.Routes.All()[0]
		stop := runs(t, a)
		defer stop()
		n := 0
		key := func(at string) string { // whose notice belongs to b
			for {
				n++
				if k := fmt.Sprintf("app1:%s:x:%d", at, n); s.space.Shard(k) == 1 {
					return k
				}
			}
		}
		set := func(k, payload string) {
			s.mu.Lock()
			s.timers[k] = payload
			s.mu.Unlock()
			a.Event(r, k, "set")
			a.Event(r, k, "expire")
		}
		end := func(k, event string) {
			s.mu.Lock()
			delete(s.timers, k)
			s.mu.Unlock()
			a.Event(r, k, event)
		}
		want := map[string]string{}
		once, twice, late, moved, deleted, away, number := key("at-a"), key("at-a"), key("at-a"), key("at-a"), key("at-a"), key("at-b"),
			key("at-a")
		for _, k := range []string{once, twice, late, moved, deleted, away} {
			set(k, "first of "+k)
		}
		set(number, "1")
		for range 200 { // more than one call takes
			k := key("at-a")
			set(k, "p"+k)
			want[k] = "p" + k
		}
		time.Sleep(3 * callLimitApart) // sleep: virtual
		set(twice, "second")
		time.Sleep(time.Second) // sleep: virtual
		a.Event(r, moved, "expire")
		end(late, "set") // a second payload, which is over before it was read
		for k := range want {
			end(k, "expired")
		}
		for _, k := range []string{once, twice, late, moved, away, number} {
			end(k, "expired")
		}
		a.Stale(r, []string{once}) // as dispatch reports an event without a claim
		end(deleted, "del")
		time.Sleep(time.Second) // sleep: virtual
		s.hang(false)
		time.Sleep(5 * time.Second) // sleep: virtual
		want[once], want[twice], want[moved], want[late], want[away], want[number] = "first of "+once, "second", "first of "+moved, "-", "-", "-"
		stop()
		for k, body := range want {
			if s.bodies[k] != body {
				t.Errorf("%s has the body %q, want %q", k, s.bodies[k], body)
			}
		}
		if len(s.bodies) != len(want) || int(seen.adopted.Load()) != len(want) || seen.lost.Load() != 3 {
			t.Errorf("%d notices, %d of them counted, %d without a body; want %d and 3", len(s.bodies), seen.adopted.Load(),
				seen.lost.Load(), len(want))
		}
		if len(a.payloads.by) != 0 || a.payloads.bytes != 0 {
			t.Errorf("%d payloads of %d bytes are kept after all", len(a.payloads.by), a.payloads.bytes)
		}
	})
}
