//go:build fault

package acceptance

import (
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
	rec.wait(waitTimeout, n/3)
	kill()
	killed := time.Now()
	rec.wait(3*waitTimeout, n)
	await(t, 3*waitTimeout, "all settled", func() bool { return settled() == n })
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

// cluster starts three masters with a replica each, and a service on them.
func cluster(t *testing.T, rec *receiver) (*nodes, *service) {
	t.Helper()
	c := newNodes(t, 3, 1, "cluster-node-timeout 2000")
	return c, c.launchOn(t, 6, 3, route("pay", "app1:pay", rec.url, "CONCURRENCY=64", "HOST_CONCURRENCY=64", "TIMEOUT=3s"))
}

// In a cluster the timers lie in other slots than what they stand for.
func TestOnTimeInACluster(t *testing.T) {
	const n = 2000
	rec := listen(t, nil)
	_, s := cluster(t, rec)
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
	c, s := cluster(t, rec)
	victim := c.holding(t, tagged(6).Base(0))
	failover(t, s, rec, victim.Kill, func() int64 { return s.settled("pay") })
	await(t, waitTimeout, "a subscription at the new master", func() bool { return s.metric("notifier_subscriptions_total") > 3 })
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
	server, err := redistest.Program()
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

// sentinels starts a master with a replica, both with these lines of redis.conf, and three
// sentinels; url and env are for those that use them.
func sentinels(t *testing.T, lines ...string) (url string, env []string, master, replica *redistest.Server) {
	t.Helper()
	master = redistest.Start(t, redistest.WithConfig(lines...))
	replica = redistest.Start(t, redistest.WithConfig(lines...), redistest.WithConfig("replicaof "+strings.ReplaceAll(master.Addr(), ":", " ")))
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

// The master is killed.
func TestSentinelFailover(t *testing.T) {
	url, env, master, replica := sentinels(t)
	ctx := t.Context()
	rec := listen(t, nil)
	s := launch(t, url, env, route("pay", "app1:pay", rec.url, "CONCURRENCY=64", "HOST_CONCURRENCY=64", "TIMEOUT=3s"))
	failover(t, s, rec, master.Kill, func() int64 { return s.settled("pay") })
	if flags := replica.Client().ConfigGet(ctx, "notify-keyspace-events").Val()["notify-keyspace-events"]; !strings.Contains(flags, "E") || !strings.Contains(flags, "x") {
		t.Errorf("the notify flags of the new master are %q", flags)
	}
	await(t, waitTimeout, "a subscription at the new master", func() bool { return s.metric("notifier_subscriptions_total") >= 2 })
}
