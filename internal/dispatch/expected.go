package dispatch

import "time"

// expectFor is how long after a claim that expires timers their events are expected:
// each comes with the claim's answer, or, where a subscriber is slow, somewhat later.
const expectFor = 250 * time.Millisecond

// expected are the events of one route that its own claims make Redis send: they tell
// nothing new, and a claim call for each would be in vain. One that does not come is
// forgotten, so that a later event of the same key is a hint again. Its queue's mutex
// guards it.
type expected struct {
	at    map[string]time.Time // by key
	order []string             // as they were added; some have come since
}

func (e *expected) add(key string, now time.Time) {
	for len(e.order) > 0 {
		at, waits := e.at[e.order[0]]
		if waits && now.Sub(at) <= expectFor {
			break
		}
		delete(e.at, e.order[0])
		e.order = e.order[1:]
	}
	if e.at == nil {
		e.at = map[string]time.Time{}
	}
	e.at[key] = now
	e.order = append(e.order, key)
}

// take reports whether the event of a key was expected; the next one is not.
func (e *expected) take(key string, now time.Time) bool {
	at, waits := e.at[key]
	delete(e.at, key)
	return waits && now.Sub(at) <= expectFor
}

// among is how many events of keys are expected.
func (e *expected) among(ks []string) (n int) {
	for _, k := range ks {
		if _, waits := e.at[k]; waits {
			n++
		}
	}
	return n
}
