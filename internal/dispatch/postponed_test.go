package dispatch

import (
	"context"
	"fmt"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/keys"
	"notifier/internal/notice"
)

// Postponed notices count as waiting until the postponement ends, by cause and host.
func TestPostponedNoticesAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, calls := newFakeStore(), 0
		why := []notice.Result{
			notice.DeferredResult(notice.ReasonBreaker, 10*time.Second, ""),
			notice.DeferredResult(notice.ReasonRate, 5*time.Second, ""),
			notice.DeferredResult(notice.ReasonLocked, time.Hour, ""), // a lock sets a new due time
			notice.RetryResult(notice.ReasonTimeout, ""),
			notice.DeliveredResult(200),
			notice.DeferredResult(notice.ReasonBreaker, 10*time.Second, ""),
		}
		why[0].Host, why[5].Host = "h:80", "g:80"
		w := newWork(func(context.Context, *notice.Notice) notice.Result {
			calls++
			return why[calls-1]
		})
		s.put("a", 0, len(why))
		d := begin(options(s, w, 1, testRoute("a", 1)))
		expect := func(by map[notice.Held]int, hosts map[string]int) {
			t.Helper()
			synctest.Wait()
			if got := d.Waiting("a"); !maps.Equal(got.By, by) || !maps.Equal(got.Hosts, hosts) {
				t.Errorf("%v, want %v and %v", got, by, hosts)
			}
		}
		d.Sweep(keys.Partition{Prefix: "a"})
		time.Sleep(time.Second) // sleep: virtual
		expect(map[notice.Held]int{notice.HeldBreaker: 2, notice.HeldRate: 1}, map[string]int{"h:80": 1, "g:80": 1})
		time.Sleep(6 * time.Second) // sleep: virtual
		expect(map[notice.Held]int{notice.HeldBreaker: 2}, map[string]int{"h:80": 1, "g:80": 1})
		time.Sleep(6 * time.Second) // sleep: virtual
		expect(map[notice.Held]int{}, map[string]int{})
		if got := d.Waiting("another"); len(got.By) > 0 {
			t.Error(got)
		}
		drain(t, d)
	})
}

// A notice that is claimed when a slot of its host is freed no longer counts, even before its
// postponement ends.
func TestClaimedNoticesAreNotCountedAsWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const notices = 20
		s, b := newFakeStore(), &busyHost{slots: 1, took: 200 * time.Millisecond}
		s.put("a", 0, notices)
		d := begin(options(s, b, 512, testRoute("a", 64)))
		done := func() int {
			b.mu.Lock()
			defer b.mu.Unlock()
			return b.calls - b.now
		}
		d.Sweep(keys.Partition{Prefix: "a"})
		looks, few := 0, 0
		for until := time.Now().Add(time.Minute); done() < notices && time.Now().Before(until); looks++ {
			time.Sleep(100 * time.Millisecond) // sleep: virtual
			synctest.Wait()
			n := d.Waiting("a").Hosts["h:80"]
			left := notices - done()
			if n > left {
				t.Errorf("%d wait of %d that are left", n, left)
			}
			if n < left-2 && time.Since(b.last) < time.Second {
				few++
			}
		}
		// One notice is called and one is claimed. More are missing only at the moment when
		// postponements end and their notices are claimed again.
		if few > looks/10 {
			t.Errorf("too few waited at %d of %d looks", few, looks)
		}
		if got := d.Waiting("a"); done() != notices || len(got.By) > 0 {
			t.Errorf("%d of %d were called; waiting %v", done(), notices, got)
		}
		drain(t, d)
	})
}

// Memory is bounded and totals are right, however many hosts there are.
func TestCountsOfWaitingNoticesAreBounded(t *testing.T) {
	var p postponed
	end := time.Now().Add(time.Hour)
	host := func(i int) string { return fmt.Sprint("h", i) }
	for i := range 2 * maxPostponedHosts {
		p.add(end, notice.HeldBusy, host(i))
	}
	sum := func() (n int) {
		for _, k := range p.n {
			n += k
		}
		return n
	}
	if len(p.n) > maxPostponedHosts+1 || sum() != 2*maxPostponedHosts {
		t.Errorf("%d entries of %d notices", len(p.n), sum())
	}
	for i := range 2 * maxPostponedHosts {
		p.remove(end, notice.HeldBusy, host(i))
	}
	if len(p.n) != 0 {
		t.Errorf("%d entries are left", len(p.n))
	}
	p.remove(end, notice.HeldBusy, "never added")
	if len(p.n) != 0 {
		t.Errorf("%d entries are left", len(p.n))
	}
}
