package callback

import (
	"cmp"
	"slices"
	"time"
)

// HostState is how one destination of a route stands at this instance.
type HostState struct {
	Prefix string // of the route
	Host   string // with its port
	// Breaker is closed, open or half-open; Until is when an open one lets the
	// next try in.
	Breaker  string
	Until    time.Time
	InFlight int
	// Slots is how many calls it may have here now; 0 = unlimited.
	Slots int
	// Slowed: it asked to be called less.
	Slowed bool
	// Refused is how many notices were put off because of it, a second.
	Refused float64
	// Calls that ended within the last minute or two, how many of them failed, and
	// how long calls take.
	Calls, Failed int64
	Mean          time.Duration
}

// tally counts calls of this minute and the last.
type tally struct {
	minute      int64
	calls, fail [2]int64 // this minute's and the last one's
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

// Hosts are the destinations that were called, or that notices waited for, within
// the last minutes: first those with a breaker that is not closed, then those that
// notices wait for, then by calls. At most that many are returned.
func (h *Handler) Hosts(most int) []HostState {
	var out []HostState
	h.states.Range(func(_, v any) bool {
		s := v.(*routeState)
		out = append(out, s.limits.hostStates(s.route.Prefix)...)
		return true
	})
	slices.SortFunc(out, func(a, b HostState) int {
		return cmp.Or(-cmp.Compare(trouble(a), trouble(b)), -cmp.Compare(a.Calls, b.Calls), cmp.Compare(a.Prefix, b.Prefix), cmp.Compare(a.Host, b.Host))
	})
	return out[:min(most, len(out))]
}

func trouble(s HostState) int {
	switch {
	case s.Breaker != "closed":
		return 3
	case s.Refused >= 1 || s.Slowed:
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
		if h.inflight == 0 && h.tally == (tally{minute: h.tally.minute}) && h.standing != hung && h.refused.perSecond(now) < 0.1 {
			continue // nothing to tell of it, as of most where there are thousands
		}
		s := HostState{Prefix: prefix, Host: h.name, Breaker: h.breaker.State().String(), Until: h.until, InFlight: h.inflight, Slots: h.limit(l.share(h)),
			Slowed: h.allowed > 0, Refused: h.refused.perSecond(now), Calls: h.tally.calls[0] + h.tally.calls[1], Failed: h.tally.fail[0] + h.tally.fail[1],
			Mean: h.latency}
		out = append(out, s)
	}
	return out
}
