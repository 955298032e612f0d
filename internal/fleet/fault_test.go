//go:build fault && linux

package fleet

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keys"
	"notifier/internal/testkit"
)

// cluster starts three masters with a replica each. holder is the master that stores the
// heartbeats, heir its replica.
func cluster(t *testing.T) (p place, holder, heir *testkit.Redis) {
	t.Helper()
	nodes := map[string]*testkit.Redis{}
	args := []string{"--cluster", "create"}
	for range 6 {
		n := testkit.StartRedis(t, testkit.WithConfig("cluster-enabled yes", "cluster-config-file nodes.conf", "cluster-node-timeout 2000"))
		nodes[n.Addr()] = n
		args = append(args, n.Addr())
	}
	addrs := args[2:]
	if out, err := exec.Command("redis-cli", append(args, "--cluster-replicas", "1", "--cluster-yes")...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	ctx := t.Context()
	testkit.Until(t, "the cluster whole", func() bool {
		for _, n := range nodes {
			i := n.Client().ClusterInfo(ctx).Val()
			if !strings.Contains(i, "cluster_state:ok") || !strings.Contains(i, "cluster_known_nodes:6") {
				return false
			}
			if role := fmt.Sprint(n.Client().Do(ctx, "ROLE").Val()); strings.HasPrefix(role, "[slave") && !strings.Contains(role, "connected") {
				return false
			}
		}
		return true
	})
	c := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs})
	t.Cleanup(func() { _ = c.Close() })
	master, err := c.MasterForKey(ctx, keys.Space{Namespace: "notifier"}.FleetSigns())
	if err != nil {
		t.Fatal(err)
	}
	holder = nodes[master.Options().Addr]
	// A replica reports its role before its master has registered it.
	testkit.Until(t, "a replica of "+holder.Addr(), func() bool {
		role, _ := holder.Client().Do(ctx, "ROLE").Slice()
		if len(role) < 3 {
			return false
		}
		replicas := fmt.Sprint(role[2])
		for addr, n := range nodes {
			if _, port, _ := net.SplitHostPort(addr); strings.Contains(replicas, " "+port+" ") {
				heir = n
			}
		}
		return heir != nil
	})
	return place{"cluster", "redis://" + addrs[0] + "?addr=" + strings.Join(addrs[1:], "&addr="), "notifier"}, holder, heir
}

// afterwards checks that no instance was declared dead, and that a killed instance still is.
func afterwards(t *testing.T, os []*observer, xs []*process) {
	t.Helper()
	back(t, os, xs)
	killed := time.Now()
	xs[0].signal(syscall.SIGKILL)
	testkit.Until(t, "it is gone", func() bool { _, ok := os[0].goneAt(xs[0].id); return ok })
	t.Logf("gone %s after kill -9", time.Since(killed).Round(time.Millisecond))
}

func TestFleetSurvivesKilledMaster(t *testing.T) {
	p, holder, heir := cluster(t)
	os, xs := meet(t, p, 2, 2)
	holder.Kill()
	testkit.Until(t, "its replica is a master", func() bool { return isMaster(t, heir) })
	afterwards(t, os, xs)
}

func isMaster(t *testing.T, s *testkit.Redis) bool {
	return strings.HasPrefix(fmt.Sprint(s.Client().Do(t.Context(), "ROLE").Val()), "[master")
}

// A planned failover closes no subscription: they stay at the old node, which is
// a replica then.
func TestFleetSurvivesPlannedFailover(t *testing.T) {
	p, holder, heir := cluster(t)
	os, xs := meet(t, p, 2, 2)
	for _, next := range []*testkit.Redis{heir, holder} {
		if err := next.Client().ClusterFailover(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		testkit.Until(t, "the replica is a master", func() bool { return isMaster(t, next) })
		back(t, os, xs)
	}
	afterwards(t, os, xs)
}

// sentinel starts a sentinel that follows a master.
func sentinel(t *testing.T, master string) string {
	t.Helper()
	port, err := testkit.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	host, p, _ := net.SplitHostPort(master)
	conf := filepath.Join(t.TempDir(), "sentinel.conf")
	text := fmt.Sprintf("port %d\nbind 127.0.0.1\ndir %s\nsentinel monitor pay %s %s 2\nsentinel down-after-milliseconds pay 1000\n"+
		"sentinel failover-timeout pay 10000\n", port, filepath.Dir(conf), host, p)
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("redis-server", conf, "--sentinel")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // x
	})
	return "127.0.0.1:" + strconv.Itoa(port)
}

// sentinels starts a master with a replica and three sentinels.
func sentinels(t *testing.T) (p place, master, replica *testkit.Redis, first *redis.SentinelClient) {
	t.Helper()
	master = testkit.StartRedis(t)
	replica = testkit.StartRedis(t, testkit.WithConfig("replicaof "+strings.ReplaceAll(master.Addr(), ":", " ")))
	ctx := t.Context()
	testkit.Until(t, "the replica in step", func() bool {
		return strings.Contains(replica.Client().Info(ctx, "replication").Val(), "master_link_status:up")
	})
	var addrs []string
	var clients []*redis.SentinelClient
	for range 3 {
		addr := sentinel(t, master.Addr())
		c := redis.NewSentinelClient(&redis.Options{Addr: addr})
		t.Cleanup(func() { _ = c.Close() })
		addrs, clients = append(addrs, addr), append(clients, c)
	}
	testkit.Until(t, "three sentinels that know one another", func() bool {
		for _, c := range clients {
			peers, err := c.Sentinels(ctx, "pay").Result()
			replicas, err2 := c.Replicas(ctx, "pay").Result()
			if err != nil || err2 != nil || len(peers) != 2 || len(replicas) != 1 {
				return false
			}
		}
		return true
	})
	return place{"sentinel", "redis://" + addrs[0] + "/0?master_name=pay&addr=" + strings.Join(addrs[1:], "&addr="), "notifier"},
		master, replica, clients[0]
}

func TestFleetSurvivesSentinelReplacingKilledMaster(t *testing.T) {
	p, master, replica, _ := sentinels(t)
	os, xs := meet(t, p, 2, 2)
	master.Kill()
	testkit.Until(t, "the replica is the master", func() bool { return isMaster(t, replica) })
	afterwards(t, os, xs)
}

func TestFleetSurvivesSentinelReplacingAliveMaster(t *testing.T) {
	p, _, replica, s := sentinels(t)
	os, xs := meet(t, p, 2, 2)
	if err := s.Failover(t.Context(), "pay").Err(); err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, "the replica is the master", func() bool { return isMaster(t, replica) })
	afterwards(t, os, xs)
}

// A master that hangs keeps its connections; no instance is dead at the new one.
func TestFleetSurvivesSentinelReplacingHangingMaster(t *testing.T) {
	p, master, replica, _ := sentinels(t)
	os, xs := meet(t, p, 2, 2)
	master.Pause()
	testkit.Until(t, "the replica is the master", func() bool { return isMaster(t, replica) })
	afterwards(t, os, xs)
	master.Unpause()
}
