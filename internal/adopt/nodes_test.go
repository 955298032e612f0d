package adopt

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"notifier/internal/keys"
	"notifier/internal/store"
)

// twoNodes is a store in a cluster of two nodes: keys whose names say so, and shard 1,
// lie at b, which hangs while it is told to.
type twoNodes struct {
	Store
	space keys.Space

	mu      sync.Mutex
	hangs   bool
	adopted map[string]bool
	news    chan string
}

func (s *twoNodes) node(_ context.Context, key string) string {
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

func (s *twoNodes) Peek(ctx context.Context, p keys.Partition, ks []string, _ int64) (time.Time, []store.Seen, int, error) {
	needsB := s.node(ctx, s.space.Base(p.Shard)) == "b"
	var seen []store.Seen
	for _, k := range ks {
		needsB = needsB || s.node(ctx, k) == "b"
		seen = append(seen, store.Seen{Key: k, Value: []byte("x"), Length: 1, Expire: time.Now().Add(time.Hour).UnixMilli()})
	}
	s.mu.Lock()
	hangs := s.hangs && needsB
	s.mu.Unlock()
	if hangs {
		<-ctx.Done()
		return time.Time{}, nil, 0, fmt.Errorf("peek: %w: %w", store.ErrUnavailable, ctx.Err())
	}
	return time.Now(), seen, len(ks), nil
}

func (s *twoNodes) Adopt(_ context.Context, _ keys.Partition, list []store.Adoption) ([]bool, error) {
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

func (s *twoNodes) Timers(context.Context, func(context.Context, func(context.Context, *redis.Client) error) error, string, int64, func(context.Context, []string) error) error {
	return nil
}

// While a node hangs, timers that need it wait, those that do not are adopted as ever,
// also those that are set meanwhile; when it is back, none is forgotten.
func TestANodeThatHangsHoldsUpNoTimersOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &twoNodes{space: keys.Space{Namespace: "notifier", Shards: 2}, adopted: map[string]bool{}, news: make(chan string, 1000), hangs: true}
		a := New(Options{Store: s, Routes: table(t), Space: s.space, MaxBody: 1 << 10, Node: s.node,
			Masters:   func(context.Context, func(context.Context, *redis.Client) error) error { return nil },
			OnAdopted: func(string, int) {}, OnBodyLost: func(string, int) {}, Logger: zap.NewNop()})
		r := a.o.Routes.All()[0]
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = a.Run(ctx)
		}()
		defer func() {
			cancel()
			<-ended
		}()
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
		why := a.FollowEach(ctx, []string{"app1:at-b:x:1", "app1:at-a:x:2"})
		if err := why["app1:at-b:x:1"]; !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("%v: of a timer at b", why)
		}
		s.hang(false)
		for end := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) { // sleep: polls until the limit
			s.mu.Lock()
			missing := 0
			for k := range set {
				if !s.adopted[k] {
					missing++
				}
			}
			s.mu.Unlock()
			if missing == 0 {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("%d timers were forgotten", missing)
			}
		}
	})
}

func (*twoNodes) Stranded(_ context.Context, ks []string) ([]bool, error) {
	return make([]bool, len(ks)), nil
}
