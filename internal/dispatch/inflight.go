package dispatch

import (
	"sync"

	"notifier/internal/notice"
	"notifier/internal/store"
)

// identity distinguishes notices, including successive notices of one key.
type identity struct {
	key  string
	made notice.Made
}

func identify(c *store.Claim) identity { return identity{c.Key, c.Made} }

// holding is an in-flight notice: claimed, and not settled yet.
type holding struct {
	claim *store.Claim
	next  *job // a later claim of the same notice, with its slot
}

// inFlight decides whether a claimed notice needs an attempt, or has one that runs in this process. It holds the notices
// of one route from the reply to their claim to the reply to their settle. A reply is recorded before its slots are
// freed. inFlight has its own lock, under which no other lock of this package is taken.
type inFlight struct {
	fleet Fleet

	mu     sync.Mutex
	held   map[identity]holding
	leases map[*lease]struct{} // of running handlers of workers
	// finding is the number of running calls that may return claims of earlier calls.
	finding int
	// settledSince holds the claims that were settled during these calls. Such a call may still
	// return the claim, if it found it before the settle.
	settledSince map[identity]*store.Claim
}

func newInFlight(f Fleet) *inFlight {
	return &inFlight{fleet: f, held: map[identity]holding{}, leases: map[*lease]struct{}{}}
}

// beginFinds records the start of such a call, and endFinds its end, after add has received its claims.
func (h *inFlight) beginFinds() {
	h.mu.Lock()
	h.finding++
	h.mu.Unlock()
}

func (h *inFlight) endFinds() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.finding--; h.finding == 0 {
		h.settledSince = nil
	}
}

// add records claimed notices as in flight: their attempts run in this process. had are the indexes of claims for
// which no attempt may start, and idle is the number of slots that the claims do not need.
func (h *inFlight) add(won []store.Claim, j job) (had []int, idle int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range won {
		id := identify(&won[i])
		// The claim has already been settled.
		if e := h.settledSince[id]; e != nil && e.SameAs(&won[i]) {
			idle++
			had = append(had, i)
			continue
		}

		held, ok := h.held[id]
		switch {
		case !ok:
			h.held[id] = holding{claim: &won[i]}
			continue
		case held.claim.SameAs(&won[i]) || held.next != nil && held.next.claim.SameAs(&won[i]): // returned again
			idle++
		default:
			// An older claim of the notice has an attempt that still runs here. Redis has lost that claim, or its clock
			// has jumped. The new claim keeps its slot and waits until the attempt is settled: see settleInFlight.
			later := j
			later.claim = &won[i]
			if held.next != nil { // it has a slot already
				later.trigger = held.next.trigger
				idle++
			}

			held.next = &later
			h.held[id] = held
		}

		had = append(had, i)
	}

	return had, idle
}

// settled records the reply to a claim's settle. It returns the later claim of the same notice, if
// any, which is in flight from now on.
func (h *inFlight) settled(c *store.Claim) (next *job) {
	id := identify(c)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.finding > 0 {
		if h.settledSince == nil {
			h.settledSince = map[identity]*store.Claim{}
		}
		h.settledSince[id] = c
	}

	held := h.held[id]
	if held.next == nil {
		delete(h.held, id)
		return nil
	}

	h.held[id] = holding{claim: held.next.claim}
	return held.next
}
