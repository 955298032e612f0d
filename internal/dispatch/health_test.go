package dispatch

import (
	"testing"
	"testing/synctest"
	"time"
)

// wakes is a waker that calls the function.
type wakes func()

func (w wakes) wake() { w() }

func TestHealthPausesLongerAfterEachFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		woken := make(chan struct{}, 1)
		h := newHealth(wakes(func() { woken <- struct{}{} }), nil, nil)
		for _, rest := range []time.Duration{20, 40, 80, 160, 250, 250} {
			from := time.Now()
			h.claimFailed()
			if h.ready() {
				t.Error("ready at once after a failure")
			}
			<-woken
			if took := time.Since(from); took < rest*time.Millisecond*3/4 || took > rest*time.Millisecond || !h.ready() {
				t.Errorf("ready after %s (%v), want %d ms less up to a quarter", took, h.ready(), rest)
			}
		}
		h.claimed()
		from := time.Now()
		h.claimFailed()
		<-woken
		if took := time.Since(from); took < minBackoff*3/4 || took > minBackoff {
			t.Errorf("rested %s", took)
		}
	})
}

func TestHealthIsNotReadyWhileASettleFails(t *testing.T) {
	h := newHealth(wakes(func() { t.Error("woken") }), nil, nil)
	h.settleFailed()
	h.settleFailed()
	h.settleTaken()
	if h.ready() {
		t.Error("ready although one settle still fails")
	}
	h.settleTaken()
	if !h.ready() {
		t.Error("not ready although all settles succeeded")
	}
	h.stop()
	if h.claimFailed(); !h.ready() { // nothing would end its pause
		t.Error("it pauses although it was stopped")
	}
}
