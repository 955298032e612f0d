package fleet

import (
	"testing"
	"time"
)

// The buckets that Prometheus scrapes showed a p99 of 11 ms as 19.9 ms.
func TestQuantilesAreExactToSixPercent(t *testing.T) {
	for _, d := range []time.Duration{0, time.Microsecond, 15 * time.Microsecond, 16 * time.Microsecond, 900 * time.Microsecond,
		11 * time.Millisecond, 310 * time.Millisecond, 7 * time.Second,
		3 * time.Hour, 40 * 24 * time.Hour} {
		var all Durations
		for range 100 {
			all.Add(d)
		}
		for _, got := range all.Quantiles(0.01, 0.5, 0.99, 1) {
			if off := (got - d).Abs(); off > d/16+time.Microsecond {
				t.Errorf("%s is read as %s", d, got)
			}
		}
	}
	var all Durations
	all.Add(-time.Second)
	all.Add(1 << 62)
	if q := all.Quantiles(0.5, 1); q[0] > time.Microsecond || q[1] < 50*24*time.Hour {
		t.Errorf("%s", q)
	}
	end := uint64(0)
	for i := range durationBuckets {
		from, to := boundsOf(i)
		if from != end || bucketOf(from) != i || bucketOf(to-1) != i {
			t.Fatalf("bucket %d is %d to %d, after %d", i, from, to, end)
		}
		end = to
	}
}
