//go:build fault

package acceptance

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"notifier/client"
	"notifier/internal/keys"
)

// A replica of a cluster is promoted, and the old master does not learn of it. The old
// master accepts writes, which are lost later. A service that reaches both masters confirms
// nothing on the old one from half a second after the switch.
func TestStaleClusterMasterConfirmsNothing(t *testing.T) {
	for _, level := range []string{"memory", "fsync"} {
		t.Run(level, func(t *testing.T) {
			rec := listen(t, nil)
			c := newNodes(t, 3, 1, "cluster-node-timeout 30000", "cluster-require-full-coverage no", "appendonly yes", "appendfsync always")
			s := c.launchOn(t, shardsOnNodes, 3, wide(rec.url), []string{"NOTIFIER_DURABILITY=" + level})
			space, ctx := tagged(shardsOnNodes), t.Context()
			victim := c.holding(t, space.Base(3))
			heir, bad := c.replicaOf(t, victim), c.shardsOf(t, victim, shardsOnNodes)
			var mu sync.Mutex
			confirmed := map[string]time.Time{}
			stop := make(chan struct{})
			var calls sync.WaitGroup
			calls.Go(func() {
				tick := time.NewTicker(5 * time.Millisecond)
				defer tick.Stop()
				for i := 0; ; {
					select {
					case <-stop:
						return
					case <-tick.C:
					}
					key := ""
					for key == "" || !bad[space.Shard(key)] {
						key = fmt.Sprintf("app1:pay:stale:%d", i)
						i++
					}
					calls.Go(func() {
						if _, err := s.api.Schedule(ctx, client.Request{Key: key, Body: []byte("1"), Delay: time.Hour}); err == nil {
							mu.Lock()
							confirmed[key] = time.Now()
							mu.Unlock()
						}
					})
				}
			})
			time.Sleep(3 * time.Second) // sleep: the service comes to know the nodes
			// The victim ignores messages of nodes that it has forgotten, so it learns nothing.
			for _, line := range strings.Split(victim.Client().ClusterNodes(ctx).Val(), "\n") {
				if id, rest, ok := strings.Cut(line, " "); ok && !strings.Contains(rest, "myself") {
					if err := victim.Client().ClusterForget(ctx, id).Err(); err != nil {
						t.Fatal(err)
					}
				}
			}
			if err := heir.Client().Do(ctx, "cluster", "failover", "takeover").Err(); err != nil {
				t.Fatal(err)
			}
			await(t, waitTimeout, "a new master", func() bool { return isMaster(t, heir) })
			switched := time.Now()
			time.Sleep(5 * time.Second) // sleep: the stale master goes on
			if !isMaster(t, victim) || victim.Client().Set(ctx, space.Base(3)+"probe", "x", 0).Err() != nil {
				t.Fatal("the old master knows")
			}
			close(stop)
			calls.Wait()
			here, lost, last := 0, 0, time.Duration(0)
			for key, at := range confirmed {
				record := space.Records(keys.Partition{Prefix: "app1:pay", Shard: space.Shard(key)})
				switch kept, err := heir.Client().HExists(ctx, record, key).Result(); {
				case err != nil:
					t.Fatal(err)
				case kept && at.After(switched):
					here++
				case !kept:
					lost++
					last = max(last, at.Sub(switched))
				}
			}
			t.Logf("%d confirmed, %d of them by the new master; %d lost, the last %s after the switch", len(confirmed), here, lost, last)
			if last > 500*time.Millisecond || here == 0 {
				t.Errorf("the old master's answers counted until %s after the switch; %d confirmed by the new one", last, here)
			}
		})
	}
}
