package dispatch

import (
	"notifier/internal/notice"
	"notifier/internal/store"
)

// identity tells notices apart, also those that had one key after another.
type identity struct {
	key  string
	made notice.Made
}

func identify(c *store.Claim) identity { return identity{c.Key, c.Made} }

// holding is a notice this process has in hand: from the claim until its settle
// is answered.
type holding struct {
	claim *store.Claim
	next  *job // a later claim of the same notice, with its slot
}

// inHand are the notices of one route that this process has in hand. Its queue's
// mutex guards it.
type inHand struct {
	held map[identity]holding
	// looking is how many calls are under way that may find what was claimed before,
	// and ended is what has been settled meanwhile: such a call may have found it just
	// before its settle, and be answered after that.
	looking int
	ended   map[identity]*store.Claim
}

func newInHand() inHand { return inHand{held: map[identity]holding{}} }

// look notes that such a call is under way, and looked that it was answered and that
// add has been told of it.
func (h *inHand) look() { h.looking++ }

func (h *inHand) looked() {
	if h.looking--; h.looking == 0 {
		h.ended = nil
	}
}

// add notes what was won, and returns which of it is not to be begun, with how many
// slots are not needed for it. No second handler is started for a notice that this
// process has in hand already: where Redis lost the claim, or its clock went ahead,
// what is under way will be settled by the later one. Nor for a claim that has been
// settled meanwhile.
func (h *inHand) add(won []store.Claim, j job) (had []int, idle int) {
	for i := range won {
		id := identify(&won[i])
		if e := h.ended[id]; e != nil && e.SameAs(&won[i]) {
			idle++
			had = append(had, i)
			continue
		}
		held, ok := h.held[id]
		switch {
		case !ok:
			h.held[id] = holding{claim: &won[i]}
			continue
		case held.claim.SameAs(&won[i]) || held.next != nil && held.next.claim.SameAs(&won[i]): // found again
			idle++
		default:
			later := j
			later.claim = &won[i]
			if held.next != nil { // there is a slot for it
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

// settled notes that a claim's settle was answered, and returns the later claim
// of the same notice, if there was one: it is in hand then.
func (h *inHand) settled(c *store.Claim) (next *job) {
	id := identify(c)
	if h.looking > 0 {
		if h.ended == nil {
			h.ended = map[identity]*store.Claim{}
		}
		h.ended[id] = c
	}
	held := h.held[id]
	if held.next == nil {
		delete(h.held, id)
		return nil
	}
	h.held[id] = holding{claim: held.next.claim}
	return held.next
}
