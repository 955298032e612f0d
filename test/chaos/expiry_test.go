package chaos

import (
	"fmt"
	"time"

	"notifier/client"
)

// overdue is how long after its expiry an attempt may arrive without a fault: the time of a connection and of this receiver.
const overdue = time.Second

// expired reports whether a notice has expired by Redis's clock as it is now.
func (l *ledger) expired(p *promise, now time.Time) bool {
	return !p.expires.IsZero() && now.Add(l.clock[len(l.clock)-1].offset).After(p.expires)
}

// behind is the time of an arrival by the clock of Redis that was furthest behind of those that may have been read for it.
func (l *ledger) behind(a *arrival) time.Time {
	best := time.Time{}
	for i, s := range l.clock {
		over := i+1 < len(l.clock) && l.clock[i+1].from.Before(a.at.Add(-felt))
		if at := a.at.Add(s.offset); !over && !s.from.After(a.at) && (best.IsZero() || at.Before(best)) {
			best = at
		}
	}
	return best
}

// troubled reports whether a fault may have delayed an arrival on its way.
func (l *ledger) troubled(a *arrival) bool {
	for _, s := range l.faults {
		if s.from.Before(a.at) && (s.to.IsZero() || s.to.Add(s.felt+overdue).After(a.at)) {
			return true
		}
	}
	return false
}

// checkExpiry notes an attempt that was made although its notice had expired.
func (l *ledger) checkExpiry(v *verdict, key string, p *promise, a *arrival) {
	if at := l.behind(a); !p.expires.IsZero() && at.After(p.expires.Add(overdue)) && !l.troubled(a) {
		v.Expired = append(v.Expired, fmt.Sprintf("%s attempt %d, %s after it expired", key, a.attempt, at.Sub(p.expires)))
	}
}

// shown is the latest that Redis's clock said shortly before it said at: a clock that goes back settles before the time of the claim.
func (l *ledger) shown(at time.Time) (latest time.Time) {
	for _, s := range l.clock {
		here := at.Add(-s.offset)
		if t := l.latest(here.Add(-felt), here); t.After(latest) {
			latest = t
		}
	}
	return latest
}

// died notes a dead letter.
func (l *ledger) died(key string, n *client.Notice) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dead[key] = n.Reason
	if n.Reason == "expired" && (n.Expires.IsZero() || n.SettledAt.Before(n.Expires) && l.shown(n.SettledAt).Before(n.Expires)) {
		l.wrong = append(l.wrong, fmt.Sprintf("%s is dead as expired at %s, and expires %s", key, n.SettledAt.Format(stamp),
			n.Expires.Format(stamp)))
	}
}
