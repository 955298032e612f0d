//go:build !quick

package acceptance

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"time"
)

// TestRateHoldsForAllInstances checks that a rate of 100/s holds for all instances together,
// with one, three and two of them, and while instances start and stop.
//
// Next to other tests an instance may be paused for longer than this process is, and then
// makes its paced calls at once. So a fifth more is allowed. A separate rate in each instance
// would make two or three times as many calls. The fault test is exact.
func TestRateHoldsForAllInstances(t *testing.T) { rateHolds(t, 20, 1, 3, 2) }

// span is a time in which no instance started or stopped.
type span struct {
	from, to  time.Time
	instances int
}

// rateHolds runs each number of instances in turn for eleven seconds, with more due notices
// than the rate allows. It allows slack calls more in each second.
func rateHolds(t *testing.T, slack int, numbers ...int) {
	t.Helper()
	const rate, long = 100, 11 * time.Second
	rec, halts := listen(t, nil), watchHalts(t)
	db := newRedis(t)
	env := route("pay", "app1:pay", rec.url, "RATE=100/s", "CONCURRENCY=64", "HOST_CONCURRENCY=64")
	var all []*service
	var spans []span
	for _, n := range numbers {
		for len(all) < n {
			all = append(all, launch(t, db.URL(), env))
		}
		for len(all) > n {
			last := all[len(all)-1]
			all = all[:len(all)-1]
			if exit, _ := last.stop(waitTimeout); exit != 0 {
				t.Fatalf("exit code %d", exit)
			}
		}
		for _, s := range all {
			await(t, waitTimeout, fmt.Sprintf("all %d known to each", n), func() bool {
				alive, err := s.tryMetric("notifier_instances", `state="living"`)
				return err == nil && int(alive) == n
			})
		}
		// A stream above the rate, and a backlog from its beginning: however long it takes to
		// start the instances, there is enough for each span.
		now := time.Now()
		all[0].scheduleAll(20*rate, func(i int) string {
			return line(fmt.Sprintf("app1:pay:rate:%d-%d", len(spans), i), now.Add(time.Duration(max(0, i-300))*time.Second/(rate*3/2)))
		})
		from := time.Now().Add(time.Second) // the second after a change
		time.Sleep(long + time.Second)      // sleep: the measured time
		spans = append(spans, span{from, from.Add(long), n})
	}
	hits := rec.all()
	for _, s := range spans {
		begun := 0
		for at := s.from; !at.Add(time.Second).After(s.to); at = at.Add(time.Second) {
			got := within(hits, at, at.Add(time.Second))
			// Calls delayed by a halt of the machine arrive together with punctual ones.
			most := rate + s.instances + slack + halts.extra(at, rate)
			if got > most {
				t.Errorf("%d instances: %d calls in a second, want at most %d", s.instances, got, most)
			}
			begun += got
			if at.Add(10 * time.Second).After(s.to) {
				continue
			}
			if got, most := within(hits, at, at.Add(10*time.Second)), 10*rate+10+slack+halts.extra(at, rate); got > most {
				t.Errorf("%d instances: %d calls in ten seconds, want at most %d", s.instances, got, most)
			}
		}
		t.Logf("%d instances: %.1f calls a second", s.instances, float64(begun)/long.Seconds())
		if begun < rate/2*int(long/time.Second) {
			t.Errorf("%d instances: %d calls in %s; half of the rate is not used", s.instances, begun, long)
		}
	}
	came := map[string]int{}
	for _, h := range hits { // the receiver still receives
		came[h.key]++
	}
	for key, n := range came {
		if n > 1 {
			t.Errorf("%s came %d times", key, n)
		}
	}
}

// within counts the calls of a time.
func within(hits []hit, from, to time.Time) (n int) {
	for _, h := range hits {
		if !h.at.Before(from) && h.at.Before(to) {
			n++
		}
	}
	return n
}

// halts records the times in which this process did not run.
type halts struct {
	mu   sync.Mutex
	list []halt
}

type halt struct {
	at   time.Time // when it went on
	took time.Duration
}

// watchHalts records, until the test's end, each time in which this process was not
// scheduled for more than four milliseconds.
func watchHalts(t *testing.T) *halts {
	h := &halts{}
	end, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		last := time.Now()
		for {
			select {
			case <-end:
				return
			case <-tick.C:
			}
			now := time.Now()
			if took := now.Sub(last); took > 4*time.Millisecond {
				h.mu.Lock()
				h.list = append(h.list, halt{now, took})
				h.mu.Unlock()
			}
			last = now
		}
	}()
	t.Cleanup(func() { close(end); <-done })
	return h
}

// extra returns the number of calls at a rate that a halt may have delayed into the second
// that begins at from: those of the longest halt that ended in it or shortly before.
func (h *halts) extra(from time.Time, rate float64) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	var longest time.Duration
	for x := range slices.Values(h.list) {
		if x.at.After(from.Add(-time.Second)) && x.at.Before(from.Add(time.Second)) {
			longest = max(longest, x.took)
		}
	}
	return int(math.Ceil(longest.Seconds() * rate))
}
