package dispatch

import (
	"sync"
	"time"

	"notifier/internal/retry"
)

// How long claims rest after a failed one: twice as long after each further one.
const (
	minBackoff = 20 * time.Millisecond
	maxBackoff = 250 * time.Millisecond
)

// health records whether Redis takes claims and settles. While it does not, nothing
// is claimed: what is handled and not written down would be handled again if this
// process died. It is that of one partition: see shardQueue. It is safe for concurrent use.
type health struct {
	queue waker // woken, without a lock, when claims have rested long enough

	mu       sync.Mutex
	claims   retry.Loop
	resting  bool
	failing  int // settle calls that Redis has not taken yet
	stopping bool
	woken    chan struct{} // closed by awake
}

// waker claims what is possible by now. *[routeQueue] is one.
type waker interface{ wake() }

func newHealth(queue waker) *health {
	return &health{queue: queue, claims: retry.Loop{Min: minBackoff, Max: maxBackoff}, woken: make(chan struct{})}
}

// awake ends a rest at once, as when a node has come back.
func (h *health) awake() {
	h.mu.Lock()
	h.resting = false
	h.claims.Succeed()
	close(h.woken)
	h.woken = make(chan struct{})
	h.mu.Unlock()
	h.queue.wake()
}

// wakes is closed by the next awake.
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

// claimed notes a claim call that was answered.
func (h *health) claimed() { h.claims.Succeed() }

// claimFailed lets claims rest, and reports whether the one before had succeeded.
func (h *health) claimFailed() (first bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	first = !h.claims.Failing()
	rest := h.claims.Next()
	if h.resting || h.stopping {
		return first
	}
	h.resting = true
	time.AfterFunc(rest, func() {
		h.mu.Lock()
		h.resting = false
		h.mu.Unlock()
		h.queue.wake()
	})
	return first
}

// settleFailed notes that Redis does not take a settle call, and settleTaken that
// it has taken it at last.
func (h *health) settleFailed() { h.addFailing(1) }
func (h *health) settleTaken()  { h.addFailing(-1) }

func (h *health) addFailing(n int) {
	h.mu.Lock()
	h.failing += n
	h.mu.Unlock()
}

// stop keeps failed claims from waking anybody later.
func (h *health) stop() {
	h.mu.Lock()
	h.stopping = true
	h.mu.Unlock()
}
