package doctor

import (
	"strings"
	"testing"

	"notifier/internal/config"
	"notifier/internal/notice"
	"notifier/internal/testkit"
	"notifier/internal/wire"
)

// durable returns a configuration with these settings of durability.
func durable(url, calls, settle string) *config.Config {
	c := configFor(url)
	c.Durability, _ = notice.ParseDurability(calls)
	c.DurabilitySettle, _ = notice.ParseDurability(settle)
	return c
}

func TestDurabilityReportsMissingReplicas(t *testing.T) {
	master := testkit.StartRedis(t, testkit.WithConfig(append(good, "repl-diskless-sync-delay 0")...))
	alone := examine(t, durable(master.URL(), "replicas:1", "memory"), Options{})
	alone.says(t, durability, Error, "connected replicas: 0 of the 1 that NOTIFIER_DURABILITY waits for")
	alone.says(t, durability, OK, "a failover loses none of them")
	testkit.StartRedis(t, testkit.WithConfig("replicaof "+strings.ReplaceAll(master.Addr(), ":", " ")))
	testkit.Until(t, "the replica connects", func() bool {
		return strings.Contains(master.Client().Info(t.Context(), "replication").Val(), "state=online")
	})
	one := examine(t, durable(master.URL(), "replicas:1", "replicas:2"), Options{})
	one.says(t, durability, OK, "1 replica, and NOTIFIER_DURABILITY waits for all")
	one.says(t, durability, Error, "connected replicas: 1 of the 2 that NOTIFIER_DURABILITY_SETTLE waits for")
	one.says(t, durability, Warning, "min-replicas-to-write is 0")
	if err := master.Client().ConfigSet(t.Context(), "min-replicas-to-write", "2").Err(); err != nil {
		t.Fatal(err)
	}
	examine(t, durable(master.URL(), "memory", "memory"), Options{}).says(t, durability, Error, "Redis refuses all writes")
}

// With different priorities a failover ignores how much a replica has received.
func TestDurabilityReportsDifferentPriorities(t *testing.T) {
	master := testkit.StartRedis(t, testkit.WithConfig(append(good, "repl-diskless-sync-delay 0", "min-replicas-to-write 1")...))
	var replicas []*testkit.Redis
	for range 2 {
		replicas = append(replicas, testkit.StartRedis(t, testkit.WithConfig("replicaof "+strings.ReplaceAll(master.Addr(), ":", " "))))
	}
	testkit.Until(t, "the replicas connect", func() bool {
		return strings.Count(master.Client().Info(t.Context(), "replication").Val(), "state=online") == 2
	})
	set := func(i int, priority string) {
		t.Helper()
		if err := replicas[i].Client().ConfigSet(t.Context(), "replica-priority", priority).Err(); err != nil {
			t.Fatal(err)
		}
	}
	cfg := durable(master.URL(), "replicas:1", "replicas:1")
	if r := examine(t, cfg, Options{}); strings.Contains(r.text(), "differ in") {
		t.Errorf("equal priorities are reported:\n%s", r.text())
	}
	set(1, "50")
	r := examine(t, cfg, Options{})
	r.says(t, durability, Warning, replicas[1].Addr()+" has 50")
	if strings.Count(r.text(), "differ in replica-priority") != 1 {
		t.Errorf("not reported once:\n%s", r.text())
	}
	if r := examine(t, durable(master.URL(), "memory", "memory"), Options{}); strings.Contains(r.text(), "differ in") {
		t.Errorf("priorities are reported although no replica is waited for:\n%s", r.text())
	}
	set(0, "0")
	set(1, "0")
	examine(t, cfg, Options{}).says(t, durability, Error, "none is ever promoted")
	if err := replicas[1].Client().Do(t.Context(), "ACL", "SETUSER", "default", "-config").Err(); err != nil {
		t.Fatal(err)
	}
	set(0, "100")
	examine(t, cfg, Options{}).says(t, durability, Info, "replica-priority of "+replicas[1].Addr()+" cannot be read")
}

func TestDurabilityReportsUnsupportedFsync(t *testing.T) {
	srv := testkit.StartRedis(t, testkit.WithConfig(good...))
	if r := examine(t, durable(srv.URL(), "fsync", "memory"), Options{}); r.Errors+r.Warnings > 0 {
		t.Errorf("a server that syncs has findings:\n%s", r.text())
	}
	for _, name := range []string{"appendfsync everysec", "appendonly no"} {
		k, v, _ := strings.Cut(name, " ")
		if err := srv.Client().ConfigSet(t.Context(), k, v).Err(); err != nil {
			t.Fatal(err)
		}
	}
	examine(t, durable(srv.URL(), "memory", "fsync"), Options{}).says(t, durability, Error, "NOTIFIER_DURABILITY_SETTLE=fsync")
	conn, err := wire.Open(wire.Address{URL: srv.URL()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	found, err := Setup(t.Context(), durable(srv.URL(), "fsync", "memory"), conn)
	if err != nil {
		t.Fatal(err)
	}
	(&Report{Findings: found}).says(t, durability, Error, "NOTIFIER_DURABILITY=fsync")
}

func TestRightToWaitIsNeededForReplicas(t *testing.T) {
	srv := testkit.StartRedis(t, testkit.WithConfig(good...))
	if err := srv.Client().Do(t.Context(), "ACL", "SETUSER", "svc", "on", ">pw", "~*", "&*", "+@all", "-wait").Err(); err != nil {
		t.Fatal(err)
	}
	url := strings.Replace(srv.URL(), "redis://", "redis://svc:pw@", 1)
	examine(t, durable(url, "replicas:1", "memory"), Options{}).says(t, "rights", Warning, "WAIT (nothing is confirmed")
	examine(t, durable(url, "memory", "memory"), Options{}).says(t, "rights", OK, "")
	examine(t, durable(url, "fsync", "memory"), Options{}).says(t, "rights", OK, "")
}

func TestDurabilityReportsFullCoverageOfCluster(t *testing.T) {
	srv := testkit.StartRedis(t, testkit.WithConfig(append(good, "cluster-enabled yes")...))
	if err := srv.Client().ClusterAddSlotsRange(t.Context(), 0, 16383).Err(); err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, "the cluster starts", func() bool {
		return strings.Contains(srv.Client().ClusterInfo(t.Context()).Val(), "cluster_state:ok")
	})
	cfg := durable("redis://"+srv.Addr(), "memory", "memory")
	cfg.Redis.Mode = config.Cluster
	r := examine(t, cfg, Options{})
	r.says(t, durability, Warning, "cluster-require-full-coverage is yes")
	r.says(t, "shards", OK, "1 shard over 1 master")
	if err := srv.Client().ConfigSet(t.Context(), "cluster-require-full-coverage", "no").Err(); err != nil {
		t.Fatal(err)
	}
	r = examine(t, cfg, Options{})
	for _, f := range r.Findings {
		if f.Check == durability && f.Severity != OK {
			t.Errorf("%+v", f)
		}
	}
}
