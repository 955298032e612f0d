package testkit

import (
	"strings"
	"testing"
	"time"
)

// StartCluster starts a cluster of two masters. The first one serves the slots up to last.
func StartCluster(t testing.TB, last int) (a, b *Redis) {
	t.Helper()
	ctx := t.Context()
	a, b = StartRedis(t, WithConfig("cluster-enabled yes")), StartRedis(t, WithConfig("cluster-enabled yes"))
	host, port, _ := strings.Cut(b.Addr(), ":")
	for _, err := range []error{
		a.Client().ClusterAddSlotsRange(ctx, 0, last).Err(), b.Client().ClusterAddSlotsRange(ctx, last+1, 16383).Err(),
		b.Client().Do(ctx, "cluster", "set-config-epoch", 7).Err(), a.Client().ClusterMeet(ctx, host, port).Err(),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}

	for _, n := range []*Redis{a, b} {
		for limit := time.Now().Add(30 * time.Second); !strings.Contains(n.Client().ClusterInfo(ctx).Val(), "cluster_state:ok"); pause() {
			if time.Now().After(limit) {
				t.Fatal("the nodes do not find each other within 30 s")
			}
		}
	}

	return a, b
}
