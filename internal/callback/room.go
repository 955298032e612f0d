package callback

import (
	"time"

	"github.com/sony/gobreaker/v2"

	"notifier/internal/notice"
	"notifier/internal/route"
)

// Room returns how many more calls to a host (host:port) can start now. While the host's circuit breaker is open,
// that is 0. each is the expected time until the next running call ends. Both are 0 for a host without a limit.
func (h *Handler) Room(r *route.Route, host string) (room int, each time.Duration) {
	v, ok := h.states.Load(r)
	if !ok {
		return 0, 0
	}

	return v.(*routeState).limits.room(host)
}

// Host returns the host (host:port) that an attempt of a notice calls; "" if it may call none.
func (h *Handler) Host(r *route.Route, n *notice.Notice) string {
	s, err := h.state(r)
	if err != nil {
		return ""
	}

	to, err := s.target(n)
	if err != nil {
		return ""
	}

	return to.port
}

func (l *limits) room(name string) (room int, each time.Duration) {
	now := l.now()
	l.mu.Lock()
	defer l.mu.Unlock()

	h := l.hosts.byName[name]
	if h == nil { // forgotten, or never called
		return 1, 0
	}

	limit, mine := l.slots(h)
	if !mine || limit == 0 {
		return limit, 0
	}

	each = h.expected(now) / time.Duration(limit)
	if h.breaker.State() != gobreaker.StateClosed || now.Before(h.until) {
		return 0, each
	}

	return max(limit-h.inflight, 0), each
}

// expected returns the expected duration of a call to the host; slowFailure if no call has ended yet.
func (h *host) expected(now time.Time) time.Duration {
	if h.latency == 0 {
		return slowFailure
	}
	if h.inflight == 0 {
		return h.latency
	}

	return max(h.latency, now.Sub(h.moved))
}
