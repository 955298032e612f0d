package callback

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sony/gobreaker/v2"

	"notifier/internal/notice"
	"notifier/internal/route"
)

// The first words of the messages that instances send to each other about circuit breakers. While its breaker for a
// host is open, an instance makes only single calls (tries) to the host. <prefix> is that of the route's notice keys:
//
//	open <prefix> <host> <failed tries> <ms until the next try> <ms since the first failure>
//	    the breaker of the sender has opened, or is still open after another failed try
//	closed <prefix> <host>
//	    the breaker of the sender has closed
//	answers <prefix> <host>
//	    reply to open: the host has answered the sender since that first failure
const (
	wordOpen    = "open"
	wordClosed  = "closed"
	wordAnswers = "answers"
)

// longestHost bounds the length of a host in a message.
const longestHost = 300

// Receive processes a message from the instance with the id from. Every client that may publish to this Redis
// can send one. A forged message postpones a host's notices at most for as long as a breaker would.
func (h *Handler) Receive(from, text string) {
	f := strings.Fields(text)
	if len(f) < 3 || len(f[2]) > longestHost {
		return
	}

	h.states.Range(func(_, v any) bool {
		s := v.(*routeState)
		if s.route.Prefix != f[1] {
			return true
		}

		s.limits.heard(from, f)
		return false
	})
}

// heard applies a message, given by its fields, to the route's breakers. It ignores malformed messages.
func (l *limits) heard(from string, f []string) {
	switch {
	case (f[0] == wordClosed || f[0] == wordAnswers) && len(f) == 3:
		l.heardClosed(from, f[2], f[0] == wordClosed)
	case f[0] == wordOpen && len(f) == 6:
		trips, err1 := strconv.Atoi(f[3])
		left, err2 := strconv.ParseInt(f[4], 10, 32)
		lasted, err3 := strconv.ParseInt(f[5], 10, 32)
		if errors.Join(err1, err2, err3) == nil && min(int64(trips), left, lasted) >= 0 {
			l.heardOpen(from, f[2], min(trips, 64), min(time.Duration(left)*time.Millisecond, breakerMost), time.Duration(lasted)*time.Millisecond)
		}
	}
}

// tellOpen sends other instances the message that a breaker has opened here.
func (l *limits) tellOpen(h *host, now time.Time) {
	lasted := time.Duration(0)
	if !h.failing.IsZero() {
		lasted = min(now.Sub(h.failing), time.Hour)
	}

	l.fleet.Broadcast(fmt.Sprintf("%s %s %s %d %d %d", wordOpen, l.prefix, h.name, h.trips, h.until.Sub(now).Milliseconds(),
		lasted.Milliseconds()))
}

// tell sends other instances a message without numbers.
func (l *limits) tell(word, name string) {
	l.fleet.Broadcast(strings.Join([]string{word, l.prefix, name}, " "))
}

// heardOpen processes the message from another instance that its circuit breaker for a host (name) is open. It opens
// the breaker of this instance too, unless the host has answered this instance since the failures began. trips is the
// number of failed test calls, left the time until the next one, and lasted the time since the first failure.
func (l *limits) heardOpen(from, name string, trips int, left, lasted time.Duration) {
	now := l.now()
	l.mu.Lock()
	defer l.mu.Unlock()

	h := l.hosts.find(name, func() *host { return l.newHost(name) })
	defer l.hosts.put(h)

	if h.answered.After(now.Add(-lasted)) {
		l.tell(wordAnswers, name)
		return
	}

	delete(h.peers, from)
	if until := now.Add(left); until.After(h.until) {
		h.until = until
	}

	h.used, h.trips, h.health = now, max(h.trips, trips), hung
	l.remote = true
	defer func() { l.remote = false }()

	for h.breaker.State() == gobreaker.StateClosed {
		done, err := h.breaker.Allow()
		if err != nil {
			return
		}

		done(errSlow)
	}
}

// heardClosed processes the message that the host called name answers the calls of the instance from. If only messages
// have opened the breaker of this instance, heardClosed closes it. Otherwise notices for the host may be handed to
// from. again is true if from has just closed its own breaker: then this instance may test the host at once.
func (l *limits) heardClosed(from, name string, again bool) {
	now := l.now()
	l.mu.Lock()
	defer l.mu.Unlock()

	h := l.hosts.byName[name]
	if h == nil || h.breaker.State() == gobreaker.StateClosed {
		return
	}

	if h.own { // a call of this instance has opened the breaker
		h.addPeer(from, now)
		// The host may answer this instance again too, so it may try at once.
		if again {
			h.until = now
		}

		return
	}

	l.changed(name, h.breaker.State(), gobreaker.StateClosed, true)
	h.breaker, h.until, h.trips, h.failing = l.newBreaker(name), time.Time{}, 0, time.Time{}
	h.health, h.used = unknown, now
	if h.inflight == 0 {
		l.hosts.put(h)
	}
}

const (
	// handedAfter is the delay of a notice that is handed to an instance which the host answers.
	handedAfter = 50 * time.Millisecond
	// peerFor is how long the knowledge that a host answers another instance is valid. That instance repeats
	// its message after each failed call from here.
	peerFor = 2 * breakerMost
	// maxPeers bounds the table that messages fill.
	maxPeers = 64
)

func (h *host) addPeer(id string, now time.Time) {
	if h.peers == nil {
		h.peers = map[string]time.Time{}
	}
	if _, known := h.peers[id]; known || len(h.peers) < maxPeers {
		h.peers[id] = now
	}
}

// reachedBy returns the ids of the live instances that a host answers while it does not answer this one,
// sorted.
func (l *limits) reachedBy(h *host, now time.Time) (ids []string) {
	if len(h.peers) == 0 {
		return nil
	}

	v := l.fleet.View(l.prefix)
	for id, at := range h.peers {
		if now.Sub(at) < peerFor && v.IsAlive(id) {
			ids = append(ids, id)
		}
	}

	slices.Sort(ids)
	return ids
}

// handOver defers a notice to the instances that its host answers. It returns nil if none is known, or if the
// next try of this instance is due.
func (l *limits) handOver(h *host, now time.Time) *deferral {
	if h.breaker.State() == gobreaker.StateHalfOpen && !h.trying && !now.Before(h.until) {
		return nil
	}
	return l.toPeers(h, now)
}

// afterTrial defers the notice of a trial that sent nothing, as handOver does.
func (l *limits) afterTrial(p *pass) *deferral {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.toPeers(p.h, l.now())
}

func (l *limits) toPeers(h *host, now time.Time) *deferral {
	ids := l.reachedBy(h, now)
	if len(ids) == 0 {
		return nil
	}

	res := notice.DeferredResult(notice.ReasonBreaker, handedAfter, h.name+
		" fails slowly here and answers another instance, which gets the notice")
	res.Host = h.name
	return &deferral{Result: res, ids: ids}
}

// others returns nil if this instance may make the next call to a host whose circuit breaker is open. Otherwise it
// returns the instances of which one makes that call. The caller hands its notice to them.
func (l *limits) others(h *host, now time.Time) View {
	// A call that is overdue by more than breakerMost may be made by any instance.
	if h.breaker.State() == gobreaker.StateClosed || now.Sub(h.until) > breakerMost {
		return nil
	}

	v := l.slotHolders(h.name, l.limitsOf(h.name))
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
