package callback

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/sony/gobreaker/v2"

	"notifier/internal/route"
)

// What instances tell each other of breakers, in words parted by spaces: the
// route's prefix and the host in full, and
//
//	open <prefix> <host> <tries that failed> <ms until the next> <ms since the failures began>
//	closed <prefix> <host>
const (
	wordOpen   = "open"
	wordClosed = "closed"
)

// longestHost bounds what is taken from a message for a host.
const longestHost = 300

// Heard takes what another instance tells. Whoever may publish to this Redis can
// send it: at worst it puts off a host for as long as a breaker would.
func (h *Handler) Heard(text string) {
	f := strings.Fields(text)
	if len(f) < 3 || len(f[2]) > longestHost {
		return
	}
	h.states.Range(func(_, v any) bool {
		s := v.(*routeState)
		if s.route.Prefix != f[1] {
			return true
		}
		switch {
		case f[0] == wordClosed && len(f) == 3:
			s.limits.heardClosed(f[2])
		case f[0] == wordOpen && len(f) == 6:
			trips, err1 := strconv.Atoi(f[3])
			left, err2 := strconv.ParseInt(f[4], 10, 32)
			lasted, err3 := strconv.ParseInt(f[5], 10, 32)
			if err1 == nil && err2 == nil && err3 == nil && trips >= 0 && left >= 0 && lasted >= 0 {
				s.limits.heardOpen(f[2], min(trips, 64), min(time.Duration(left)*time.Millisecond, breakerMost), time.Duration(lasted)*time.Millisecond)
			}
		}
		return false
	})
}

// tellOpen tells the others of a breaker that has opened here.
func (l *limits) tellOpen(h *host, now time.Time) {
	lasted := time.Duration(0)
	if !h.failing.IsZero() {
		lasted = min(now.Sub(h.failing), time.Hour)
	}
	l.fleet.Tell(fmt.Sprintf("%s %s %s %d %d %d", wordOpen, l.prefix, h.name, h.trips, h.until.Sub(now).Milliseconds(), lasted.Milliseconds()))
}

// tellClosed tells the others of a host that has answered here.
func (l *limits) tellClosed(name string) {
	l.fleet.Tell(strings.Join([]string{wordClosed, l.prefix, name}, " "))
}

// heardOpen opens the breaker of a host that fails at another instance, for as
// long as it is open there; unless it has answered here since the failures began
// there: then it is not the host that fails.
func (l *limits) heardOpen(name string, trips int, left, lasted time.Duration) {
	now := l.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.hosts.find(name, func() *host { return l.newHost(name) })
	defer l.hosts.put(h)
	if h.answered.After(now.Add(-lasted)) {
		l.tellClosed(name)
		return
	}
	if until := now.Add(left); until.After(h.until) {
		h.until = until
	}
	h.used, h.trips, h.standing = now, max(h.trips, trips), hung
	l.told = true
	defer func() { l.told = false }()
	for h.breaker.State() == gobreaker.StateClosed {
		done, err := h.breaker.Allow()
		if err != nil {
			return
		}
		done(errSlow)
	}
}

// heardClosed closes the breaker of a host that has answered another instance.
func (l *limits) heardClosed(name string) {
	now := l.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.hosts.byName[name]
	if h == nil || h.breaker.State() == gobreaker.StateClosed {
		return
	}
	l.changed(name, h.breaker.State(), gobreaker.StateClosed, true)
	h.breaker, h.until, h.trips, h.failing = l.newBreaker(name), time.Time{}, 0, time.Time{}
	h.standing, h.used = unknown, now
	if h.inflight == 0 {
		l.hosts.put(h)
	}
}

// others are those among whom is the instance that makes the next try of a host
// whose breaker is open; nil if it is for this one. That one may get no notice for
// the host, so it is handed some; and if it has not told what came of it for the
// longest time that a breaker is open, this one tries too.
func (l *limits) others(h *host, now time.Time) View {
	if h.breaker.State() == gobreaker.StateClosed || now.Sub(h.until) > breakerMost {
		return nil
	}
	v := l.slotHolders(h.name)
	if v.Prefers(l.tryName(h)) {
		return nil
	}
	return v
}

// Open reports whether the breaker of a route's host, given as host:port, is open.
func (h *Handler) Open(r *route.Route, host string) bool {
	v, ok := h.states.Load(r)
	if !ok {
		return false
	}
	l := v.(*routeState).limits
	l.mu.Lock()
	defer l.mu.Unlock()
	x := l.hosts.byName[host]
	return x != nil && x.breaker.State() != gobreaker.StateClosed
}
