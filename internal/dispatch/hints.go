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
	waiting []hint
	last    time.Time
}

// hint is a key that may be due, and what says so.
type hint struct {
	key     string
	trigger trigger
}

// add takes a hint unless there is no room for it beside free slots.
func (h *hints) add(key string, t trigger, free int) bool {
	if free <= 0 || len(h.waiting) >= free+maxHintsAhead {
		return false
	}
	h.waiting = append(h.waiting, hint{key, t})
	return true
}

func (h *hints) drop() { h.waiting = nil }

// leave drops those hints that left says.
func (h *hints) leave(left func(key string) bool) {
	h.waiting = slices.DeleteFunc(h.waiting, func(w hint) bool { return left(w.key) })
}

func (h *hints) expected() bool { return time.Since(h.last) <= hintsExpected }

// take takes up to n hints of one shard and trigger, those of the first; shards is nil
// where there is one shard only.
func (h *hints) take(n int, shards Shards) (keys []string, t trigger, of int) {
	first := h.waiting[0]
	shard := func(key string) int {
		if shards == nil {
			return 0
		}
		return shards.Shard(key)
	}
	of = shard(first.key)
	keys = make([]string, 0, min(n, len(h.waiting)))
	rest := h.waiting[:0:0]
	for i, w := range h.waiting {
		if len(keys) == n {
			rest = append(rest, h.waiting[i:]...)
			break
		}
		if w.trigger == first.trigger && shard(w.key) == of {
			keys = append(keys, w.key)
		} else {
			rest = append(rest, w)
		}
	}
	h.waiting = rest
	return keys, first.trigger, of
}
