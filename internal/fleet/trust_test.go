package fleet

import (
	"testing"
	"time"
)

// The others count the takeover from the moment at which Redis received the heartbeat. So an
// instance may trust its claims from the moment of sending, however late the reply comes.
func TestTrustCountsFromSendingOfHeartbeat(t *testing.T) {
	plays(t, 1, func(t *testing.T, n *node, ps []*player) {
		p := ps[0]
		at := func() (at int64) { n.do(func() { at = n.heartbeats[p.ID()].At }); return at }
		n.do(func() { n.late = 2500 * time.Millisecond })
		for last := at(); at() == last; {
			time.Sleep(time.Millisecond) // sleep: virtual
		}
		p.seat.set(true)                    // the answer to this heartbeat is the last that arrives
		time.Sleep(2900 * time.Millisecond) // sleep: virtual
		if p.ClaimID() != p.ID() {
			t.Error("claims are not trusted within the takeover")
		}
		time.Sleep(200 * time.Millisecond) // sleep: virtual
		if p.ClaimID() == p.ID() {
			t.Error("claims are trusted beyond the takeover")
		}
		n.do(func() { n.late = 0 })
		p.seat.set(false)
	})
}
