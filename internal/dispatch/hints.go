package dispatch

import (
	"slices"
	"time"
)

// maxHintsAhead is how many hints may wait beyond the free slots: those gathered
// while claim calls are under way.
const maxHintsAhead = 256

// hintsExpected is how long after a hint another is expected: as long, a backlog
// leaves a quarter of the slots to hints.
const hintsExpected = 500 * time.Millisecond

// hints are the keys of one route that may be due and wait for a claim call. Its
// queue's mutex guards them.
type hints struct {
	waiting []string
	last    time.Time
	owner   string // for whom claim calls expire the timers of those that are expected
}

// add takes a hint unless there is no room for it beside free slots.
func (h *hints) add(key string, free int) bool {
	if free <= 0 || len(h.waiting) >= free+maxHintsAhead {
		return false
	}
	h.waiting = append(h.waiting, key)
	return true
}

func (h *hints) drop() { h.waiting = nil }

// leave drops those hints that left says.
func (h *hints) leave(left func(key string) bool) { h.waiting = slices.DeleteFunc(h.waiting, left) }

func (h *hints) expected() bool { return time.Since(h.last) <= hintsExpected }

// take takes up to n hints of one shard, that of the first; shard is nil where
// there is one shard only.
func (h *hints) take(n int, shard func(key string) int) (keys []string, of int) {
	n = min(n, len(h.waiting))
	if shard == nil {
		keys = h.waiting[:n:n]
		h.waiting = h.waiting[n:]
		return keys, 0
	}
	of = shard(h.waiting[0])
	rest := h.waiting[:0:0]
	for _, k := range h.waiting {
		if len(keys) < n && shard(k) == of {
			keys = append(keys, k)
		} else {
			rest = append(rest, k)
		}
	}
	h.waiting = rest
	return keys, of
}
