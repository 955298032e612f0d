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
type inHand map[identity]holding

// add notes what was won, and returns which of it this process has in hand
// already, with how many slots are not needed for it. No second handler is
// started for such a notice: where Redis lost the claim, or its clock went ahead,
// what is under way will be settled by the later one.
func (h inHand) add(won []store.Claim, j job) (had []int, idle int) {
	for i := range won {
		id := identify(&won[i])
		held, ok := h[id]
		switch {
		case !ok:
			h[id] = holding{claim: &won[i]}
			continue
		case held.claim.SameAs(&won[i]) || held.next != nil && held.next.claim.SameAs(&won[i]): // found again
			idle++
		default:
			later := j
			later.claim = &won[i]
			if held.next != nil { // there is a slot for it
				later.source = held.next.source
				idle++
			}
			held.next = &later
			h[id] = held
		}
		had = append(had, i)
	}
	return had, idle
}

// settled notes that a claim's settle was answered, and returns the later claim
// of the same notice, if there was one: it is in hand then.
func (h inHand) settled(c *store.Claim) (next *job) {
	id := identify(c)
	held := h[id]
	if held.next == nil {
		delete(h, id)
		return nil
	}
	h[id] = holding{claim: held.next.claim}
	return held.next
}
