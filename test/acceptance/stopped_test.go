//go:build fault

package acceptance

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/testkit"
)

// masters starts a cluster without replicas, whose nodes wait long for each
// other.
func masters(t *testing.T, n int) (nodes map[string]*testkit.Redis, c *redis.ClusterClient, url string) {
	t.Helper()
	nodes = map[string]*testkit.Redis{}
	args := []string{"--cluster", "create"}
	for range n {
		s := testkit.StartRedis(t, testkit.WithConfig("cluster-enabled yes", "cluster-config-file nodes.conf", "cluster-node-timeout 30000"))
		nodes[s.Addr()] = s
		args = append(args, s.Addr())
	}
	command(t, append(args, "--cluster-yes")...)
	addrs := args[2:]
	c = redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs})
	t.Cleanup(func() { _ = c.Close() })
	await(t, waitTimeout, "the cluster whole", func() bool {
		for _, s := range nodes {
			i := s.Client().ClusterInfo(t.Context()).Val()
			if !strings.Contains(i, "cluster_state:ok") || !strings.Contains(i, fmt.Sprintf("cluster_known_nodes:%d", n)) {
				return false
			}
		}
		return true
	})
	return nodes, c, "redis://" + addrs[0] + "?addr=" + strings.Join(addrs[1:], "&addr=")
}

// One node of a cluster is paused for four seconds, during claims, settles and pushes. No
// instance loses its own claim, which would show as a lateness of a lease. No callback is
// made twice, and no attempt is pushed twice. A push without an answer counts as a failed
// attempt, so the next attempt may follow.
func TestPausedClusterNodeLosesNothing(t *testing.T) {
	const n, stop, lease = 3000, 4 * time.Second, 15 * time.Second
	rec := listen(t, nil)
	nodes, c, url := masters(t, 3)
	s := launch(t, url, []string{"NOTIFIER_REDIS_MODE=cluster", "NOTIFIER_SHARDS=6", "NOTIFIER_ROUTES=pay,jobs"},
		route("pay", "app1:pay", rec.url, "CONCURRENCY=64", "HOST_CONCURRENCY=64"),
		route("jobs", "app2:pay", "list:jobs", "CONCURRENCY=64", "RETRY=1s,1s"))
	ctx := t.Context()
	from := time.Now().Add(time.Second)
	at := func(i int) time.Time { return from.Add(time.Duration(i) * 8 * time.Second / n) }
	s.scheduleAll(2*n, func(i int) string { return line(fmt.Sprintf("app%d:pay:now:%d", 1+i%2, i/2), at(i/2)) })
	holder, err := c.MasterForKey(ctx, "jobs")
	if err != nil {
		t.Fatal(err)
	}
	rec.wait(waitTimeout, n/6)
	node := nodes[holder.Options().Addr]
	node.Pause()
	time.Sleep(stop) // sleep: the fault lasts as long
	node.Unpause()
	rec.wait(2*waitTimeout, n)
	await(t, 2*waitTimeout, "all settled", func() bool { return s.settled("pay") == n && s.settled("jobs") == n })
	rec.once(n)
	if late := rec.lateness("app1"); late.most > lease-2*time.Second {
		t.Errorf("lateness %s: a notice waited for a lease", late)
	}
	type attempt struct {
		Key     string `json:"key"`
		Attempt int    `json:"attempt"`
	}
	pushed, twice, repeated := map[attempt]int{}, 0, 0
	for _, e := range c.LRange(ctx, "jobs", 0, -1).Val() {
		var a attempt
		if err := json.Unmarshal([]byte(e), &a); err != nil {
			t.Fatal(err)
		}
		if pushed[a]++; pushed[a] > 1 {
			twice++
		}
		if a.Attempt > 1 {
			repeated++
		}
	}
	if twice > 0 || len(pushed) < n {
		t.Errorf("%d attempts were pushed twice, %d pushed", twice, len(pushed))
	}
	t.Logf("callbacks %s; %d entries of %d notices, %d of them a further attempt", rec.lateness("app1"), len(pushed), n, repeated)
}
