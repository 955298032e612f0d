//go:build fault

package acceptance

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/client"
)

// Calls for one notice while a master hangs: calls for shards of healthy masters are
// answered as usual, calls for shards of the hanging one within about a second.
func TestHangingMasterDelaysOnlyCallsForItsShards(t *testing.T) {
	for _, which := range []string{"notifier:{audit}:clients", tagged(shardsOnNodes).Base(3)} {
		t.Run("with "+which, func(t *testing.T) {
			rec := listen(t, nil)
			c, s, node, space := onNodes(t, rec, which)
			bad := c.shardsOf(t, node, shardsOnNodes)
			ctx := t.Context()
			calls := map[string]func(ctx context.Context, key string) error{
				"schedule": func(ctx context.Context, key string) error {
					_, err := s.api.Schedule(ctx, client.Request{Key: key + "new", Delay: time.Hour, Body: []byte("1")})
					return err
				},
				"get": func(ctx context.Context, key string) error { _, err := s.api.Get(ctx, key); return err },
				"reschedule": func(ctx context.Context, key string) error {
					_, err := s.api.Reschedule(ctx, key, time.Now().Add(2*time.Hour))
					return err
				},
				"cancel": func(ctx context.Context, key string) error { _, err := s.api.Cancel(ctx, key); return err },
			}
			byName := map[string]map[bool][]string{}
			for name := range calls {
				byName[name] = map[bool][]string{}
				for i := range 60 {
					key := fmt.Sprintf("app1:pay:%s:%d", name, i)
					if _, err := s.api.Schedule(ctx, client.Request{Key: key, Delay: time.Hour, Body: []byte("1")}); err != nil {
						t.Fatal(err)
					}
					isBad := bad[space.Shard(key)]
					if name == "schedule" {
						isBad = bad[space.Shard(key+"new")]
					}
					byName[name][isBad] = append(byName[name][isBad], key)
				}
			}
			node.Pause()
			defer node.Unpause()
			// A client that waits for the node itself gives up after 3 s.
			raw := redis.NewClient(&redis.Options{Addr: node.Addr(), MaxRetries: -1, ReadTimeout: 3 * time.Second, DisableIdentity: true})
			defer func() { _ = raw.Close() }()
			given := make(chan struct{})
			go func() {
				defer close(given)
				_ = raw.Ping(context.WithoutCancel(ctx))
			}()
			var mu sync.Mutex
			most := map[string]time.Duration{}
			for round := range 2 { // as it begins to hang, and when that is known
				var wg sync.WaitGroup
				for name, call := range calls {
					for isBad, list := range byName[name] {
						for _, key := range list[round*len(list)/2 : (round+1)*len(list)/2] {
							wg.Go(func() {
								at := time.Now()
								err := call(ctx, key)
								took := time.Since(at)
								var p *client.Problem
								switch {
								case isBad && (!errors.As(err, &p) || p.Status != 503 || p.RetryAfter == 0):
									t.Errorf("%s %s of the master that hangs: %v, want 503 with Retry-After", name, key, err)
								case !isBad && err != nil:
									t.Errorf("%s %s: %v", name, key, err)
								}
								mu.Lock()
								defer mu.Unlock()
								what := fmt.Sprintf("round %d, %s, of the master that hangs %t", round, name, isBad)
								most[what] = max(most[what], took)
							})
						}
					}
				}
				wg.Wait()
				if round == 0 {
					select {
					case <-given:
						t.Error("some calls were not answered before a client that waits for the node itself gave up")
					default:
					}
				}
			}
			<-given
			for what, d := range most {
				t.Logf("%s: at most %s", what, d)
			}
		})
	}
}
