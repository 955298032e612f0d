//go:build fault

package acceptance

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"notifier/internal/keys"
	"notifier/internal/testkit"
	"notifier/test/record"
)

// isMaster reports whether a server that lives says that it is a master.
func isMaster(t *testing.T, n *testkit.Redis) bool {
	return strings.HasPrefix(fmt.Sprint(n.Client().Do(t.Context(), "ROLE").Val()), "[master")
}

// switchAim is how soon after the servers' own switch all must be as before.
const switchAim = 500 * time.Millisecond

// switched describes how long the shards of a dead master waited after the servers' own
// switch.
func (r reckoning) switched(fault window) string {
	return record.Reached(r.after <= switchAim && len(r.missing) == 0 && r.doubled == 0,
		fmt.Sprintf("the servers' own switch took %s; the last delivery that had waited was %s after it",
			record.Short(fault.to.Sub(fault.from)), record.Short(r.after)))
}

// survived fails the test if something confirmed is missing, or a delivery came far
// later than it could.
func (r reckoning) survived(t *testing.T) {
	t.Helper()
	r.log(t)
	if len(r.missing) > 0 {
		t.Errorf("%d missing, as %s", len(r.missing), r.missing[0])
	}
	// Notices whose settle was lost are delivered again: they were in flight at the kill.
	if r.doubled > 100 {
		t.Errorf("%d doubled", r.doubled)
	}
	if r.after > 16*time.Second {
		t.Errorf("a delivery was %s after the switch", r.after)
	}
}

// subscribedAgain waits until the service has subscribed more often than there were
// masters before the fault.
func subscribedAgain(t *testing.T, s *service, masters float64) {
	t.Helper()
	await(t, waitTimeout, "a subscription at the new master", func() bool { return s.metric("notifier_subscriptions_total") > masters })
}

// doubledInFlight fails the test if a notice came twice under two ids, or one that was not
// in flight when the master was killed.
func doubledInFlight(t *testing.T, rec *receiver, killed time.Time) {
	t.Helper()
	for key, hits := range rec.byKey() {
		if len(hits) > 1 && (len(hits) > 2 || hits[0].id != hits[1].id || killed.Sub(hits[0].at) > 2*time.Second) {
			t.Errorf("%s came %d times, first %s before the kill", key, len(hits), killed.Sub(hits[0].at))
		}
	}
}

// The master of a Sentinel setup is killed during single calls.
func TestKilledSentinelMasterLosesNothing(t *testing.T) {
	begun := time.Now()
	url, env, master, replica := sentinels(t)
	o, err := redis.ParseFailoverURL(url)
	if err != nil {
		t.Fatal(err)
	}
	var all []*redis.SentinelClient
	for _, addr := range o.SentinelAddrs {
		one := redis.NewSentinelClient(&redis.Options{Addr: addr})
		defer func() { _ = one.Close() }()
		all = append(all, one)
	}
	v := versionOf(t, master.Client())
	rec := listen(t, nil)
	s := launch(t, url, env, wide(rec.url))
	l := keepLedger(s, keys.Space{Namespace: "notifier", Shards: 1}, map[int]bool{0: true}, steady(), 1500*time.Millisecond)
	time.Sleep(record.Sized(4*time.Second, 20*time.Second)) // sleep: steady work before the fault
	from := time.Now()
	master.Kill()
	await(t, waitTimeout, "a sentinel that names the new master", func() bool {
		return slices.ContainsFunc(all, func(one *redis.SentinelClient) bool {
			return strings.Join(one.GetMasterAddrByName(t.Context(), "pay").Val(), ":") == replica.Addr()
		})
	})
	fault := window{from, time.Now()}
	time.Sleep(record.Sized(6*time.Second, 40*time.Second)) // sleep: steady work after it
	if flags := replica.Client().ConfigGet(t.Context(), "notify-keyspace-events").Val()["notify-keyspace-events"]; !strings.Contains(flags,
		"E") ||
		!strings.Contains(flags, "x") {
		t.Errorf("the notify flags of the new master are %q", flags)
	}
	subscribedAgain(t, s, 1)
	r := l.reckon(rec, fault)
	r.survived(t)
	doubledInFlight(t, rec, from)
	record.Fault{No: "1", Fault: "Sentinel: the master is killed (-9)", Settings: "1 replica, 3 sentinels, down-after-milliseconds 1500",
		Counts: r.counts(),
		Aim:    "0 lost, 0 doubled, on time ≤ 500 ms after Sentinel's own switch", Found: r.switched(fault), Server: v, From: begun}.Put(t)
}

// One master of a cluster is killed during single calls, with each setting of
// cluster-require-full-coverage.
func TestKilledClusterMasterLosesNothing(t *testing.T) {
	for i, coverage := range []string{"no", "yes"} {
		t.Run("coverage "+coverage, func(t *testing.T) {
			begun := time.Now()
			rec := listen(t, nil)
			c := newNodes(t, 3, 1, "cluster-node-timeout 2000", "cluster-require-full-coverage "+coverage)
			space := tagged(shardsOnNodes)
			s := c.launchOn(t, shardsOnNodes, 3, wide(rec.url))
			victim := c.holding(t, space.Base(3))
			bad := c.shardsOf(t, victim, shardsOnNodes)
			heir := c.replicaOf(t, victim)
			l := keepLedger(s, space, bad, steady(), 1500*time.Millisecond)
			time.Sleep(record.Sized(4*time.Second, 30*time.Second)) // sleep: steady work before the fault
			from := time.Now()
			victim.Kill()
			await(t, waitTimeout, "a new master", func() bool { return isMaster(t, heir) })
			fault := window{from, time.Now()}
			time.Sleep(record.Sized(6*time.Second, 100*time.Second)) // sleep: steady work after it
			subscribedAgain(t, s, 3)
			r := l.reckon(rec, fault)
			r.survived(t)
			doubledInFlight(t, rec, from)
			found := r.switched(fault)
			if coverage == "no" {
				found += "; " + r.beside()
			} else {
				found += fmt.Sprintf("; Redis's default: all masters refuse during the outage, %d calls of healthy shards had an error, and their "+
					"notices came up to %s late",
					r.refused[false]+r.unanswered[false], record.Short(r.late[false].most))
			}
			record.Fault{No: fmt.Sprintf("2.%d", i+1), Fault: "cluster 3+3: a master is killed (-9), coverage " + coverage,
				Settings: fmt.Sprintf("%d shards, cluster-node-timeout 2000", shardsOnNodes), Counts: r.counts(),
				Aim: "0 lost, 0 doubled, the victim's ≤ 500 ms after the cluster's switch; with coverage no, " + besideAim, Found: found,
				Server: c.version(t), From: begun}.Put(t)
		})
	}
}

// replicaOf is the replica that knows a node as its master.
func (c *nodes) replicaOf(t *testing.T, master *testkit.Redis) *testkit.Redis {
	t.Helper()
	for _, n := range c.all {
		if role, ok := n.Client().Do(t.Context(), "ROLE").Val().([]any); ok && role[0] == "slave" &&
			fmt.Sprintf("%v:%v", role[1], role[2]) == master.Addr() {
			return n
		}
	}
	t.Fatalf("%s has no replica", master.Addr())
	return nil
}
