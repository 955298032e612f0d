package timetravel

import (
	"testing"
	"time"

	"notifier/internal/store"
)

// While an instance is stopped and not yet unresponsive, its preferred work waits for a grace, but
// only until another instance has noticed. That one does the work, and checks again once a second.
func TestStoppedInstanceClaimsAreReclaimed(t *testing.T) {
	const n, apart, most = 400, 5 * time.Millisecond, 20 * time.Millisecond
	for stopped := range 3 {
		travel(t, func(t *testing.T, w *world) {
			var all []*instance
			for range 3 {
				all = append(all, w.start(t))
			}
			defer w.stop(t)
			time.Sleep(5 * time.Second) // all know of all
			at := w.now().Add(10 * time.Second)
			for k := range n {
				if _, err := all[(stopped+1)%3].Schedule(t.Context(),
					store.Request{Key: key(k), Delay: at.Add(time.Duration(k) * apart).Sub(w.now())}); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(at.Sub(w.now()) - time.Second)
			all[stopped].wire.hold(2*time.Second + n*apart)
			time.Sleep(5 * time.Second)
			late, theirs := 0, 0
			var worst time.Duration
			for k := range n {
				got := w.attempts(key(k))
				if len(got) != 1 {
					t.Fatalf("notice %d was handled %d times", k, len(got))
				}
				d := got[0].began.Sub(at.Add(time.Duration(k) * apart))
				worst = max(worst, d)
				if d > most {
					late++
				}
				if got[0].instance == all[stopped].name {
					theirs++
				}
			}
			t.Logf("%s was stopped: %d of %d were more than %s late, at most %s; it handled %d", all[stopped].name, late, n, most, worst, theirs)
			// A grace of 50 ms plus the extra wait of the next in rank, twice (for the check and
			// for the work), in each second.
			if late > n/6 || worst > 100*time.Millisecond {
				t.Errorf("%d of %d were more than %s late, at most %s", late, n, most, worst)
			}
		})
	}
}
