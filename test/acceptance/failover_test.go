//go:build fault

package acceptance

import (
	"testing"
	"time"
)

// cluster starts three masters with a replica each, and a service on them.
func cluster(t *testing.T, rec *receiver) (*nodes, *service) {
	t.Helper()
	c := newNodes(t, 3, 1, "cluster-node-timeout 2000")
	return c, c.launchOn(t, 6, 3, route("pay", "app1:pay", rec.url, "CONCURRENCY=64", "HOST_CONCURRENCY=64", "TIMEOUT=3s"))
}

// In a cluster a timer and its notice are in different slots.
func TestClusterDeliversOnTime(t *testing.T) {
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
