package dispatch

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestABacklogLeavesSlotsToHintsWhileSomeCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, w := newShelf(), taking(time.Second)
		s.put("a", 0, 60)
		d := begin(options(s, w, 100, testRoute("a", 16)))
		after(900 * time.Millisecond)
		if n := w.count(); n != 15 {
			t.Errorf("%d began; want all slots but one, no hint having come", n)
		}
		if !d.Hint(d.lanes["a"].r, "a:m:t:30") {
			t.Error("a hint found no slot")
		}
		after(50 * time.Millisecond)
		if n := w.count(); n != 16 {
			t.Errorf("%d began; want the hinted one too", n)
		}
		after(100 * time.Millisecond) // the first 15 are done
		if n := w.count(); n != 27 {
			t.Errorf("%d began; want 11 more, 4 slots being left to hints", n)
		}
		drain(t, d)
	})
}
