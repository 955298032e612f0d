package dispatch

import (
	"slices"
	"time"

	"notifier/internal/notice"
	"notifier/internal/store"
)

const (
	// maxHintsAhead is the number of hints that may wait beyond the free slots, gathered during claim calls.
	maxHintsAhead = 2048
	// maxSorted is the number of hinted keys in one call that claims first attempts before others.
	maxSorted = 512
	// sortsFor is how long after a claim of a later class hints are sorted. Without such claims the work would find nothing.
	sortsFor = 10 * time.Second
)

// hintsExpected is how long after a hint the next one is expected. During that time a backlog
// leaves a quarter of the slots to hints.
const hintsExpected = 500 * time.Millisecond

// hints are the keys of one route that may be due and wait for a claim call. The lock of readyQueue
// guards them.
type hints struct {
	waiting []hint
	last    time.Time
	later   time.Time // when a notice of a later class than notice.ClassFirst was last claimed
}

// hint is a key that may be due, and the source of that information. first means that it is known to be a first attempt.
type hint struct {
	key     string
	trigger trigger
	first   bool
}

// add appends a hint, if there is room beyond the free slots and the slots that running sweeps will
// return.
func (h *hints) add(key string, t trigger, free int) bool {
	if free <= 0 || len(h.waiting) >= free+maxHintsAhead {
		return false
	}

	h.waiting = append(h.waiting, hint{key: key, trigger: t})
	return true
}

// putFirst adds hints of first attempts before all others. It returns false if there was no room for all.
func (h *hints) putFirst(keys []string, t trigger) bool {
	room := min(len(keys), max(maxHintsAhead-len(h.waiting), 0))
	first := make([]hint, room, room+len(h.waiting))
	for i := range first {
		first[i] = hint{keys[i], t, true}
	}

	h.waiting = append(first, h.waiting...)
	return room == len(keys)
}

func (h *hints) drop() { h.waiting = nil }

// leave drops the hints for which left returns true.
func (h *hints) leave(left func(key string) bool) {
	h.waiting = slices.DeleteFunc(h.waiting, func(w hint) bool { return left(w.key) })
}

// claimed records the classes of claimed notices.
func (h *hints) claimed(won []store.Claim) {
	for i := range won {
		if won[i].Class() != notice.ClassFirst {
			h.later = time.Now()
			return
		}
	}
}

// sorted reports whether the next n hints need no sorting: all of them are first attempts, no more are waiting, or nothing else than
// first attempts was claimed for sortsFor.
func (h *hints) sorted(n int) bool {
	return len(h.waiting) <= n || time.Since(h.later) > sortsFor ||
		!slices.ContainsFunc(h.waiting[:n], func(w hint) bool { return !w.first })
}

func (h *hints) expected() bool { return time.Since(h.last) <= hintsExpected }

// take removes up to n hints with the shard and trigger of the first one. shards is nil if there is
// only one shard.
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
			if len(rest) == 0 { // usually all hints before i are taken: nothing is copied
				rest = h.waiting[i:]
			} else {
				rest = append(rest, h.waiting[i:]...)
			}

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
