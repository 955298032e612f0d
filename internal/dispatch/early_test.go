package dispatch

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/notice"
)

// An expired event that comes slightly early is not sent again by Redis.
func TestEarlyHintIsRepeatedWhenDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, r := newFakeStore(), testRoute("a", 4)
		begun := map[string]time.Duration{}
		from := time.Now()
		d := begin(options(s, newWork(func(_ context.Context, n *notice.Notice) notice.Result {
			begun[n.Key] = time.Since(from)
			return notice.DeliveredResult(200)
		}), 4, r))
		synctest.Wait()
		s.put("a", 0, 2)
		s.entries[0].at = from.Add(1300 * time.Microsecond)
		s.entries[1].at = from.Add(time.Second) // beyond the grace: its own event will follow
		d.Hint(r, "a:m:t:0")
		d.Hint(r, "a:m:t:1")
		after(time.Minute)
		if late := begun["a:m:t:0"] - 1300*time.Microsecond; late != 0 {
			t.Errorf("handled %s after it was due, want at once", late)
		}
		if at, ok := begun["a:m:t:1"]; ok {
			t.Errorf("a notice due far beyond the grace was hinted again after %s", at)
		}
		if len(s.calls) > 4 { // two when the route began or was hinted, one sweep, one repeat
			t.Errorf("calls: %q", s.calls)
		}
		quiet(t, d)
		drain(t, d)
	})
}

// A shutdown does not wait for hints that are to be repeated, and claims nothing for them.
func TestRepeatedHintClaimsNothingAfterDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, w, r := newFakeStore(), taking(time.Second), testRoute("a", 4)
		d := begin(options(s, w, 4, r))
		synctest.Wait()
		s.put("a", 0, 1)
		s.entries[0].at = time.Now().Add(40 * time.Millisecond)
		d.Hint(r, "a:m:t:0")
		synctest.Wait()
		drain(t, d)
		after(time.Minute)
		if w.calls != 0 {
			t.Error("claimed after Drain")
		}
	})
}
