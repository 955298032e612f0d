//go:build fault

package acceptance

import (
	"fmt"
	"net/http"
	"testing"
	"time"
)

// beside measures the notices of a route, or of good merchants, while others
// hang; with is whether they do.
func beside(t *testing.T, with bool, play func(t *testing.T, with bool) spread) spread {
	var got spread
	name := map[bool]string{false: "alone", true: "beside"}[with]
	t.Run(name, func(t *testing.T) {
		got = play(t, with)
		t.Logf("%s: %s", name, got)
	})
	return got
}

func compare(t *testing.T, play func(t *testing.T, with bool) spread) {
	alone, with := beside(t, false, play), beside(t, true, play)
	if t.Failed() {
		return
	}
	ratio := float64(with.p99) / float64(alone.p99)
	t.Logf("p99 %s beside, %s alone: ratio %.2f", with.p99, alone.p99, ratio)
	if ratio > 20 && with.p99 > 200*time.Millisecond {
		t.Errorf("p99 %s beside, %s alone: ratio %.2f, aim 2", with.p99, alone.p99, ratio)
	}
}

// hangs is a receiver that answers only when its test ends.
func hangs(t *testing.T) *receiver {
	end := make(chan struct{})
	rec := listen(t, func(_ http.ResponseWriter, r *http.Request, _ hit) {
		select {
		case <-r.Context().Done():
		case <-end:
		}
	})
	t.Cleanup(func() { close(end) })
	return rec
}

// A route whose receiver hangs and whose slots are all taken.
func TestSaturatedRouteDoesNotDelayAnother(t *testing.T) {
	compare(t, func(t *testing.T, with bool) spread {
		const n = 1000
		rec, stuck := listen(t, nil), hangs(t)
		db := newRedis(t)
		s := launch(t, db.URL(), wide(rec.url), route("stuck", "app1:stuck", stuck.url, "TIMEOUT=5s"))
		if with {
			due := time.Now()
			s.scheduleAll(5000, func(i int) string { return line(fmt.Sprintf("app1:stuck:now:%d", i), due) })
			stuck.wait(waitTimeout, 16)
		}
		from := time.Now().Add(time.Second)
		s.scheduleAll(n, func(i int) string {
			return line(fmt.Sprintf("app1:pay:now:%d", i), from.Add(time.Duration(i)*5*time.Millisecond))
		})
		rec.wait(waitTimeout, n)
		await(t, waitTimeout, "all settled", func() bool { return s.settled("pay") == n })
		rec.once(n)
		return rec.lateness("app1:pay")
	})
}

// One merchant of a route hangs for its full timeout, with 100,000 due.
func TestHangingMerchantDoesNotDelayOthers(t *testing.T) {
	compare(t, func(t *testing.T, with bool) spread {
		const n = 2000
		bad := hangs(t)
		var good []*receiver
		for range 10 {
			good = append(good, listen(t, nil))
		}
		db := newRedis(t)
		s := launch(t, db.URL(), route("shops", "app1:shops", "notice", "ALLOW=127.0.0.0/8", "TIMEOUT=10s"))
		to := func(url, key string, due time.Time) string {
			l := line(key, due)
			return fmt.Sprintf(`%s,"url":%q}`, l[:len(l)-1], url)
		}
		// The good ones are known, as on any day.
		s.scheduleAll(100, func(i int) string { return to(good[i%10].url, fmt.Sprintf("app1:shops:warm:%d", i), time.Now()) })
		await(t, waitTimeout, "the warm ones settled", func() bool { return s.settled("shops") == 100 })
		if with {
			due := time.Now().Add(15 * time.Second)
			s.scheduleAll(100_000, func(i int) string { return to(bad.url, fmt.Sprintf("app1:shops:bad:%d", i), due) })
			if time.Now().After(due) {
				t.Log("the 100,000 fell due while they were scheduled")
			}
			bad.wait(waitTimeout, 1)
		}
		from := time.Now().Add(time.Second)
		s.scheduleAll(n, func(i int) string {
			return to(good[i%10].url, fmt.Sprintf("app1:shops:now:%d", i), from.Add(time.Duration(i)*5*time.Millisecond))
		})
		var late []time.Duration
		for _, g := range good {
			g.wait(2*waitTimeout, (n+100)/10)
			g.once((n + 100) / 10)
			for _, h := range g.all() {
				if h.key[:15] == "app1:shops:now:" {
					late = append(late, h.late())
				}
			}
		}
		return spreadOf(late)
	})
}
