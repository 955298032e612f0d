package callback

import (
	"cmp"
	"slices"
	"time"
)

// HostState is the state of one destination of a route at this instance, for pages and metrics.
type HostState struct {
	Prefix string // of the route
	Host   string // with the port
	// Breaker is closed, open or half-open. Until is when an open breaker allows the next try.
	Breaker  string
	Until    time.Time
	InFlight int
	// Slots is the number of calls that may run here at once; 0 = unlimited.
	Slots int
	// Slowed means that the host's slots are reduced, because it answered 429 or 503.
	Slowed bool
	// Refused is the number of notices per second that were deferred because of this host.
	Refused float64
	// Calls is the number of calls that ended in this minute and the last, Failed how many of them failed,
	// and Mean their mean duration.
	Calls, Failed int64
	Mean          time.Duration
}

// tally counts the calls of this minute and of the last one.
type tally struct {
	minute      int64
	calls, fail [2]int64 // this minute, last minute
}

func (t *tally) roll(now time.Time) {
	switch m := now.Unix() / 60; m - t.minute {
	case 0:
	case 1:
		t.minute, t.calls[1], t.fail[1], t.calls[0], t.fail[0] = m, t.calls[0], t.fail[0], 0, 0
	default:
		*t = tally{minute: m}
	}
}

func (t *tally) add(now time.Time, failed bool) {
	t.roll(now)
	t.calls[0]++
	if failed {
		t.fail[0]++
	}
}

// Hosts returns the state of at most most hosts that were called in this minute or the last, hang, or have notices
// deferred. Hosts that need more attention come first: those with an open or half-open circuit breaker, those for which
// calls are held back, those with failed calls, then all others. Hosts with more calls come first in each group.
func (h *Handler) Hosts(most int) []HostState {
	var out []HostState
	h.states.Range(func(_, v any) bool {
		s := v.(*routeState)
		out = append(out, s.limits.hostStates(s.route.Prefix)...)
		return true
	})
	slices.SortFunc(out, func(a, b HostState) int {
		return cmp.Or(-cmp.Compare(trouble(a), trouble(b)), -cmp.Compare(a.Calls, b.Calls), cmp.Compare(a.Prefix, b.Prefix),
			cmp.Compare(a.Host, b.Host))
	})
	return out[:min(most, len(out))]
}

func trouble(s HostState) int {
	switch {
	case s.Breaker != "closed":
		return 3
	case s.Refused >= 1 || s.Slowed: // notices are deferred, or answers of 429 or 503 have reduced the calls
		return 2
	case s.Failed > 0:
		return 1
	}

	return 0
}

func (l *limits) hostStates(prefix string) []HostState {
	now := l.now()
	l.mu.Lock()
	defer l.mu.Unlock()

	var out []HostState

	for _, h := range l.hosts.byName {
		h.tally.roll(now)
		if h.inflight == 0 && h.tally == (tally{minute: h.tally.minute}) && h.health != hung && h.refused.perSecond(now) < 0.1 {
			continue // nothing to report, as for most hosts where there are thousands
		}

		s := HostState{Prefix: prefix, Host: h.name, Breaker: h.breaker.State().String(), Until: h.until, InFlight: h.inflight,
			Slots: h.limit(l.share(h)), Slowed: h.allowed > 0, Refused: h.refused.perSecond(now), Calls: h.tally.calls[0] + h.tally.calls[1],
			Failed: h.tally.fail[0] + h.tally.fail[1], Mean: h.latency}
		out = append(out, s)
	}

	return out
}
