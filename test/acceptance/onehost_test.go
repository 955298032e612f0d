//go:build fault

package acceptance

import (
	"fmt"
	"testing"
	"time"
)

// All instances deliver a backlog of one host, with as many concurrent calls as the limit
// for all instances allows. With at least one call for each instance, all take part. With a
// limit below the number of instances, some still do.
func TestBacklogOfOneHostIsSharedByInstances(t *testing.T) {
	for _, c := range []struct{ calls, notices, atWork int }{{12, 3000, 4}, {2, 500, 2}} {
		t.Run(fmt.Sprintf("%d calls at once", c.calls), func(t *testing.T) {
			const takes = 20 * time.Millisecond
			work := &busy{takes: takes}
			rec := listen(t, work.answer)
			db := newRedis(t)
			all := fleetOf(t, 4, db.URL(), route("pay", "app1:pay", rec.url, "CONCURRENCY=64", fmt.Sprint("HOST_CONCURRENCY=", c.calls)))
			due := time.Now().Add(2 * time.Second)
			all[0].scheduleAll(c.notices, func(i int) string { return line(fmt.Sprintf("app1:pay:one:%d", i), due) })
			rec.wait(2*waitTimeout, c.notices)
			await(t, waitTimeout, "all settled", func() bool { return all[0].settled("pay") == int64(c.notices) })
			rec.once(c.notices)
			atWork, shares := 0, []float64{}
			for _, s := range all {
				did := s.metric("notifier_attempts_total", `outcome="delivered"`)
				shares = append(shares, did)
				if did >= float64(c.notices/c.atWork/4) {
					atWork++
				}
			}
			hits := rec.all()
			took := hits[len(hits)-1].at.Sub(due)
			t.Logf("%d notices in %s, %d at once at most; by instance %v", c.notices, took.Round(10*time.Millisecond), work.most.Load(), shares)
			if atWork < c.atWork {
				t.Errorf("%d of 4 instances worked on it, want %d: %v", atWork, c.atWork, shares)
			}
			if m := int(work.most.Load()); m > c.calls || m < c.calls {
				t.Errorf("%d calls were under way at once, want the %d that are allowed", m, c.calls)
			}
		})
	}
}
