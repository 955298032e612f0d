//go:build fault

package acceptance

import (
	"strings"
	"testing"
	"time"
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
