//go:build fault

package timetravel

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"notifier/internal/store"
)

// A hundred instances share 30 shards, and ten of them are killed at once. Their own round trips, the
// claims that they lose to one another, and the lateness stay bounded. Each notice is handled once.
func TestHundredInstancesShareShards(t *testing.T) {
	const instances, killed, notices, apart = 100, 10, 1000, 10 * time.Millisecond
	travel(t, func(t *testing.T, w *world) {
		w.shards = 30
		for range instances {
			w.start(t)
		}
		time.Sleep(10 * time.Second)
		before := w.calls.Load()
		time.Sleep(30 * time.Second)
		idle := float64(w.calls.Load()-before) / 30

		at := w.now().Add(10 * time.Second)
		for k := range notices {
			due := at.Add(time.Duration(k) * apart)
			if _, err := w.running[k%instances].Schedule(t.Context(), store.Request{Key: key(k), Delay: due.Sub(w.now())}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(at.Sub(w.now()) + notices/2*apart)
		for _, i := range w.running[:killed] {
			i.kill()
		}
		w.running = w.running[killed:]
		time.Sleep(notices/2*apart + 15*time.Second)

		var worst time.Duration
		late := 0
		for k := range notices {
			got := w.attempts(key(k))
			if len(got) != 1 {
				t.Fatalf("notice %d was handled %d times", k, len(got))
			}
			d := got[0].began.Sub(at.Add(time.Duration(k) * apart))
			if worst = max(worst, d); d > 20*time.Millisecond {
				late++
			}
		}
		lost := w.claims(t, "lost") + w.claims(t, "stale")
		t.Logf("idle: %.0f round trips a second; claims lost or stale: %.0f of %d; more than 20 ms late: %d, at most %s",
			idle, lost, notices, late, worst)
		// The next in rank waits for the grace and up to 15 ms more.
		if idle > 3*instances || lost > notices/20 || late > notices/20 || worst > 80*time.Millisecond {
			t.Error("want at most 3 round trips a second for each instance, 5 % lost, 5 % late, none more than 80 ms")
		}
		w.stop(t)
	})
}

// claims returns how many claims of the running instances had a result.
func (w *world) claims(t *testing.T, result string) (sum float64) {
	t.Helper()
	for _, i := range w.running {
		page := httptest.NewRecorder()
		i.metrics.Page().ServeHTTP(page, httptest.NewRequest("GET", "/metrics", nil))
		for line := range strings.Lines(page.Body.String()) {
			if rest, ok := strings.CutPrefix(line, `notifier_claims_total{result="`+result+`",source=`); ok {
				var n float64
				if _, err := fmt.Sscanf(rest[strings.Index(rest, " "):], "%g", &n); err != nil {
					t.Fatalf("%q: %v", line, err)
				}
				sum += n
			}
		}
	}
	return sum
}
