package transport

import (
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// DefaultIdle is how long a connection stays open without a call if the receiver announces no time. It
// is below the limits of usual servers, which close a connection after 5 s (Node) or more.
const DefaultIdle = 4 * time.Second

// keptFor returns the maximum idle time of a connection that its receiver closes after says. The
// result is up to a second shorter, so that the last request arrives in time.
func keptFor(says time.Duration) time.Duration {
	return min(says-min(says/2, time.Second), MaxIdle)
}

// keepAliveTimeout returns the timeout of a header such as "Keep-Alive: timeout=5, max=100".
func keepAliveTimeout(h http.Header) (time.Duration, bool) {
	for _, line := range h["Keep-Alive"] {
		for part := range strings.SplitSeq(line, ",") {
			name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
			if !strings.EqualFold(name, "timeout") {
				continue
			}
			if n, err := strconv.ParseUint(strings.Trim(value, `" `), 10, 32); err == nil {
				return time.Duration(n) * time.Second, true
			}
		}
	}

	return 0, false
}

const (
	// closedEvery is the minimal time between two reductions. A receiver that restarts closes many connections together.
	closedEvery = time.Second
	// raisedEvery is the time after which a reduced idle time is doubled.
	raisedEvery = time.Hour
	// minKept is the shortest idle time. Below it connections are not kept.
	minKept = 50 * time.Millisecond
)

// keptTime is the idle time of an origin's connections, learned from those that the receiver has closed.
type keptTime struct {
	lowered atomic.Bool

	mu    sync.Mutex
	limit time.Duration
	at    time.Time // of the last change
}

// closed halves the limit after the receiver has closed a connection that was idle for that time, and was to be kept for
// keep. It does not go further at once, since a restart of the receiver looks the same.
func (k *keptTime) closed(idle, keep time.Duration, now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()

	limit := keep
	if k.lowered.Load() {
		limit = min(keep, k.limit)
		if now.Sub(k.at) < closedEvery || keep > limit && idle >= limit { // the present limit would have closed it before
			return
		}
	}

	if k.limit, k.at = limit/2, now; k.limit < minKept {
		k.limit = 0
	}

	k.lowered.Store(true)
}

// of returns the idle time of a connection that could be kept for keep.
func (k *keptTime) of(keep time.Duration, now time.Time) time.Duration {
	if !k.lowered.Load() {
		return keep
	}

	k.mu.Lock()
	defer k.mu.Unlock()

	if now.Sub(k.at) >= raisedEvery {
		k.limit, k.at = max(2*k.limit, minKept), now
		k.lowered.Store(k.limit < keep)
	}

	return min(keep, k.limit)
}
