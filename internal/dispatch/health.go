package dispatch

import (
	"sync"
	"time"

	"go.uber.org/zap"

	"notifier/internal/pace"
)

// The pause after a failed claim; it doubles with each further failure.
const (
	minBackoff = 20 * time.Millisecond
	maxBackoff = 250 * time.Millisecond
)

// health records whether Redis accepts the claims and settles of one partition. Claims pause for a short time after a
// failed claim, and while a settle fails. health is safe for concurrent use.
type health struct {
	queue waker // woken, without a lock, at the end of a pause after failed claims

	mu       sync.Mutex
	claims   pace.Loop
	resting  bool
	failing  int // settle calls that Redis has not taken yet
	stopping bool
	woken    chan struct{} // closed by awake
}

// waker claims as many notices as possible. *[readyQueue] implements it.
type waker interface{ wake() }

// newHealth returns a health without failures. Failed claims are logged as part of group.
func newHealth(queue waker, logger *zap.Logger, group *pace.Loops) *health {
	return &health{queue: queue, woken: make(chan struct{}),
		claims: pace.Loop{Min: minBackoff, Max: maxBackoff, Logger: logger, Failure: "claim failed, retrying", Group: group}}
}

// awake ends the pause at once, for example when a node is reachable again.
func (h *health) awake() {
	h.mu.Lock()
	h.resting = false
	h.claims.Succeed()
	close(h.woken)
	h.woken = make(chan struct{})
	h.mu.Unlock()
	h.queue.wake()
}

// wakes returns a channel that the next awake closes.
func (h *health) wakes() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.woken
}

// ready reports whether claims may be made.
func (h *health) ready() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !h.resting && h.failing == 0
}

// claimed records a claim call with a reply.
func (h *health) claimed() { h.claims.Succeed() }

// claimFailed pauses claims.
func (h *health) claimFailed() {
	h.mu.Lock()
	defer h.mu.Unlock()
	rest := h.claims.Next()
	if h.resting || h.stopping {
		return
	}

	h.resting = true
	time.AfterFunc(rest, func() {
		h.mu.Lock()
		h.resting = false
		h.mu.Unlock()
		h.queue.wake()
	})
}

// settleFailed records that a settle call fails, and settleTaken that it succeeded at last.
func (h *health) settleFailed() { h.addFailing(1) }
func (h *health) settleTaken()  { h.addFailing(-1) }

func (h *health) addFailing(n int) {
	h.mu.Lock()
	h.failing += n
	h.mu.Unlock()
}

// stop prevents later wake-ups.
func (h *health) stop() {
	h.mu.Lock()
	h.stopping = true
	h.mu.Unlock()
}
