package acceptance

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"notifier/internal/testkit"
)

// sentinel starts a sentinel that follows a master.
func sentinel(t testing.TB, master string, quorum int) string {
	t.Helper()
	port, err := testkit.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	host, p, _ := net.SplitHostPort(master)
	conf := filepath.Join(dir, "sentinel.conf")
	text := fmt.Sprintf("port %d\nbind 127.0.0.1\ndir %s\nsentinel monitor pay %s %s %d\nsentinel down-after-milliseconds pay 1500\n"+
		"sentinel failover-timeout pay 10000\n", port, dir, host, p, quorum)
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	server, err := testkit.Program()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(server, conf, "--sentinel")
	cmd.SysProcAttr = tether()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it reports the signal
	})
	return "127.0.0.1:" + strconv.Itoa(port)
}

// sentinels starts a master and a replica with the options, and three sentinels. url and env
// configure a service that uses the sentinels.
func sentinels(t testing.TB, options ...testkit.Option) (url string, env []string, master, replica *testkit.Redis) {
	t.Helper()
	master = testkit.StartRedis(t, options...)
	replica = testkit.StartRedis(t, append(slices.Clone(options), testkit.WithConfig("replicaof "+strings.ReplaceAll(master.Addr(),
		":", " ")))...)
	ctx := t.Context()
	await(t, waitTimeout, "the replica in step", func() bool {
		return strings.Contains(replica.Client().Info(ctx, "replication").Val(), "master_link_status:up")
	})
	var addrs []string
	for range 3 {
		addrs = append(addrs, sentinel(t, master.Addr(), 2))
	}
	await(t, waitTimeout, "three sentinels that know one another", func() bool {
		for _, a := range addrs {
			c := redis.NewSentinelClient(&redis.Options{Addr: a})
			peers, err := c.Sentinels(ctx, "pay").Result()
			replicas, err2 := c.Replicas(ctx, "pay").Result()
			_ = c.Close()
			if err != nil || err2 != nil || len(peers) != 2 || len(replicas) != 1 {
				return false
			}
		}
		return true
	})
	return "redis://" + addrs[0] + "/0?master_name=pay&addr=" + strings.Join(addrs[1:], "&addr="), []string{"NOTIFIER_REDIS_MODE=sentinel"},
		master, replica
}
