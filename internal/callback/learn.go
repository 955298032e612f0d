package callback

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sony/gobreaker/v2"

	"notifier/internal/notice"
	"notifier/internal/route"
)

// The messages about breakers between instances, with the route's prefix and the host in
// full:
//
//	open <prefix> <host> <tries that failed> <ms until the next> <ms since the failures began>
//	closed <prefix> <host>    the host answers again
//	answers <prefix> <host>   the reply to open of an instance that the host has answered since
const (
	wordOpen    = "open"
	wordClosed  = "closed"
	wordAnswers = "answers"
)

// longestHost bounds what is taken from a message for a host.
const longestHost = 300

// Heard takes a message of the instance with the id from. Every client that may publish to
// this Redis can send one: at worst it postpones a host for as long as a breaker would.
func (h *Handler) Heard(from, text string) {
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
		case (f[0] == wordClosed || f[0] == wordAnswers) && len(f) == 3:
			s.limits.heardClosed(from, f[2], f[0] == wordClosed)
		case f[0] == wordOpen && len(f) == 6:
			trips, err1 := strconv.Atoi(f[3])
			left, err2 := strconv.ParseInt(f[4], 10, 32)
			lasted, err3 := strconv.ParseInt(f[5], 10, 32)
			if err1 == nil && err2 == nil && err3 == nil && trips >= 0 && left >= 0 && lasted >= 0 {
				s.limits.heardOpen(from, f[2], min(trips, 64), min(time.Duration(left)*time.Millisecond, breakerMost), time.Duration(lasted)*time.Millisecond)
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

// tell sends a message without numbers.
func (l *limits) tell(word, name string) {
	l.fleet.Tell(strings.Join([]string{word, l.prefix, name}, " "))
}

// heardOpen opens the breaker of a host that fails at another instance, for as
// long as it is open there; unless it has answered here since the failures began
// there: then it is not the host that fails.
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

// heardClosed takes that a host answers another instance. A breaker that opened because of
// a message closes. One that opened because of calls from here stays open, since this
// instance itself may be cut off: that other one gets the notices until a call from here
// has an answer. again: the host did not answer before, so that a call from here is due.
func (l *limits) heardClosed(from, name string, again bool) {
	now := l.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.hosts.byName[name]
	if h == nil || h.breaker.State() == gobreaker.StateClosed {
		return
	}
	if h.own {
		h.addPeer(from, now)
		if again {
			h.until = now
		}
		return
	}
	l.changed(name, h.breaker.State(), gobreaker.StateClosed, true)
	h.breaker, h.until, h.trips, h.failing = l.newBreaker(name), time.Time{}, 0, time.Time{}
	h.standing, h.used = unknown, now
	if h.inflight == 0 {
		l.hosts.put(h)
	}
}

const (
	// handedAfter is when a notice is due again that another instance is to deliver because
	// the host answers it.
	handedAfter = 50 * time.Millisecond
	// peerFor is how long it holds that a host answers another instance: that one says so
	// again after each call from here that failed.
	peerFor = 2 * breakerMost
	// maxPeers bounds what messages can fill.
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

// reachedBy are the ids of the instances that a host answers while it does not answer this
// one, sorted.
func (l *limits) reachedBy(h *host, now time.Time) (ids []string) {
	if len(h.peers) == 0 {
		return nil
	}
	v := l.fleet.View()
	for id, at := range h.peers {
		if now.Sub(at) < peerFor && v.Lives(id) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// handOver defers a notice to the instances that its host answers; nil if there is none, or
// if the next try of this instance is due.
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
	res := notice.DeferredResult(notice.ReasonBreaker, handedAfter, h.name+" fails slowly here and answers another instance, which gets the notice")
	res.Host = h.name
	return &deferral{Result: res, ids: ids}
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
