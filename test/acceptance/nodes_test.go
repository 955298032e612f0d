package acceptance

import (
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"notifier/internal/testkit"
)

// command runs redis-cli.
func command(t testing.TB, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
	defer cancel()
	out, err := exec.CommandContext(ctx, "redis-cli", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("redis-cli %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// nodes are a cluster.
type nodes struct {
	all    map[string]*testkit.Redis // by address
	addrs  []string
	client *redis.ClusterClient
	url    string // for NOTIFIER_REDIS_URL
}

// newNodes starts a cluster of masters with so many replicas each.
func newNodes(t testing.TB, masters, replicas int, config ...string) *nodes {
	t.Helper()
	return nodesWith(t, masters, replicas, testkit.WithConfig(config...))
}

func nodesWith(t testing.TB, masters, replicas int, options ...testkit.Option) *nodes {
	t.Helper()
	c := &nodes{all: map[string]*testkit.Redis{}}
	args := []string{"--cluster", "create"}
	for range masters * (1 + replicas) {
		n := testkit.StartRedis(t, append([]testkit.Option{testkit.WithConfig("cluster-enabled yes", "cluster-config-file nodes.conf")},
			options...)...)
		c.all[n.Addr()] = n
		args = append(args, n.Addr())
	}
	addrs := args[2:]
	c.addrs = addrs
	command(t, append(args, "--cluster-replicas", strconv.Itoa(replicas), "--cluster-yes")...)
	c.client = redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs})
	t.Cleanup(func() { _ = c.client.Close() })
	ctx := t.Context()
	await(t, waitTimeout, "the cluster whole", func() bool {
		for _, n := range c.all {
			i := n.Client().ClusterInfo(ctx).Val()
			if !strings.Contains(i, "cluster_state:ok") || !strings.Contains(i, fmt.Sprintf("cluster_known_nodes:%d", len(c.all))) {
				return false
			}
			if role := n.Client().Do(ctx, "ROLE").Val(); strings.HasPrefix(fmt.Sprint(role), "[slave") && !strings.Contains(fmt.Sprint(role),
				"connected") {
				return false
			}
		}
		return true
	})
	c.url = "redis://" + addrs[0] + "?addr=" + strings.Join(addrs[1:], "&addr=")
	return c
}
