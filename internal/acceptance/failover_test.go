//go:build fault

package acceptance

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/redistest"
)

// failover plays n notices over eight seconds while kill ends a master, and
// says what came twice. A settle or claim that the replica had not yet heard of
// is forgotten with its master: such a notice comes again, with the same
// webhook-id, and it was under way when the master died.
func failover(t *testing.T, s *service, rec *receiver, kill func(), settled func() int64) {
	t.Helper()
	const n = 3000
	s.stream(n, 8*time.Second)
	rec.wait(patience, n/3)
	kill()
	killed := time.Now()
	rec.wait(3*patience, n)
	await(t, 3*patience, "all settled", func() bool { return settled() == n })
	twice := 0
	for key, hits := range rec.byKey() {
		if len(hits) == 1 {
			continue
		}
		twice++
		if len(hits) > 2 || hits[0].id != hits[1].id || killed.Sub(hits[0].at) > 2*time.Second {
			t.Errorf("%s came %d times, first %s before the kill", key, len(hits), killed.Sub(hits[0].at))
		}
	}
	if twice > 100 {
		t.Errorf("%d notices came twice", twice)
	}
	var before, after []time.Duration
	last := killed
	for _, h := range rec.all() {
		if h.at.Before(killed) {
			before = append(before, h.late())
		} else {
			after = append(after, h.late())
			if h.late() > time.Second {
				last = h.at
			}
		}
	}
	if s.ended() {
		t.Error("the service ended")
	}
	t.Logf("%d notices, %d of them twice (under way when the master died); before %s; after %s; on time again %s after the kill", n, twice,
		spreadOf(before), spreadOf(after), last.Sub(killed).Round(time.Millisecond))
}

// command runs redis-cli.
func command(t *testing.T, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, "redis-cli", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("redis-cli %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// cluster starts three masters with a replica each, and a service on them.
func cluster(t *testing.T, rec *receiver) (nodes map[string]*redistest.Server, c *redis.ClusterClient, s *service) {
	t.Helper()
	nodes = map[string]*redistest.Server{}
	args := []string{"--cluster", "create"}
	for range 6 {
		n := redistest.Start(t, redistest.WithConfig("cluster-enabled yes", "cluster-config-file nodes.conf", "cluster-node-timeout 2000"))
		nodes[n.Addr()] = n
		args = append(args, n.Addr())
	}
	command(t, append(args, "--cluster-replicas", "1", "--cluster-yes")...)
	addrs := args[2:]
	c = redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs})
	t.Cleanup(func() { _ = c.Close() })
	ctx := t.Context()
	await(t, patience, "the cluster whole", func() bool {
		for _, n := range nodes {
			i := n.Client().ClusterInfo(ctx).Val()
			if !strings.Contains(i, "cluster_state:ok") || !strings.Contains(i, "cluster_known_nodes:6") {
				return false
			}
			if role := n.Client().Do(ctx, "ROLE").Val(); strings.HasPrefix(fmt.Sprint(role), "[slave") && !strings.Contains(fmt.Sprint(role), "connected") {
				return false
			}
		}
		return true
	})
	s = launch(t, "redis://"+addrs[0]+"?addr="+strings.Join(addrs[1:], "&addr="), []string{"NOTIFIER_REDIS_MODE=cluster", "NOTIFIER_SHARDS=6"},
		route("pay", "app1:pay", rec.url, "CONCURRENCY=64", "HOST_CONCURRENCY=64", "TIMEOUT=3s"))
	await(t, patience, "a subscription at each master", func() bool { return s.metric("notifier_subscriptions_total") == 3 })
	return nodes, c, s
}

// In a cluster the timers lie in other slots than what they stand for.
func TestOnTimeInACluster(t *testing.T) {
	const n = 2000
	rec := listen(t, nil)
	_, _, s := cluster(t, rec)
	s.stream(n, 5*time.Second)
	s.complete(rec, n)
	late := rec.lateness("app1")
	if late.p99 > 800*time.Millisecond {
		t.Errorf("lateness %s", late)
	}
	t.Logf("lateness %s; claims by event %.0f, by sweep %.0f", late, s.metric("notifier_claims_total", `"event"`, `"won"`),
		s.metric("notifier_claims_total", `"sweep"`, `"won"`))
}

// One of three masters is killed.
func TestClusterLosesAMaster(t *testing.T) {
	rec := listen(t, nil)
	nodes, c, s := cluster(t, rec)
	ctx := t.Context()
	failover(t, s, rec, func() {
		holder, err := c.MasterForKey(ctx, "{0}")
		if err != nil {
			t.Error(err)
			return
		}
		nodes[holder.Options().Addr].Kill()
	}, func() int64 { return s.settled("pay") })
	await(t, patience, "a subscription at the new master", func() bool { return s.metric("notifier_subscriptions_total") > 3 })
}

// sentinel starts a sentinel that follows a master.
func sentinel(t *testing.T, master string, quorum int) string {
	t.Helper()
	port, err := redistest.FreePort()
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
	server, err := exec.LookPath("redis-server")
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

// A master with a replica and three sentinels; the master is killed.
func TestSentinelFailover(t *testing.T) {
	master := redistest.Start(t)
	replica := redistest.Start(t, redistest.WithConfig("replicaof "+strings.ReplaceAll(master.Addr(), ":", " ")))
	ctx := t.Context()
	await(t, patience, "the replica in step", func() bool {
		return strings.Contains(replica.Client().Info(ctx, "replication").Val(), "master_link_status:up")
	})
	var addrs []string
	for range 3 {
		addrs = append(addrs, sentinel(t, master.Addr(), 2))
	}
	await(t, patience, "three sentinels that know one another", func() bool {
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
	rec := listen(t, nil)
	s := launch(t, "redis://"+addrs[0]+"/0?master_name=pay&addr="+strings.Join(addrs[1:], "&addr="), []string{"NOTIFIER_REDIS_MODE=sentinel"},
		route("pay", "app1:pay", rec.url, "CONCURRENCY=64", "HOST_CONCURRENCY=64", "TIMEOUT=3s"))
	failover(t, s, rec, master.Kill, func() int64 { return s.settled("pay") })
	if flags := replica.Client().ConfigGet(ctx, "notify-keyspace-events").Val()["notify-keyspace-events"]; !strings.Contains(flags, "E") || !strings.Contains(flags, "x") {
		t.Errorf("the notify flags of the new master are %q", flags)
	}
	await(t, patience, "a subscription at the new master", func() bool { return s.metric("notifier_subscriptions_total") >= 2 })
}
