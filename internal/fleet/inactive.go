package fleet

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"
)

// inactiveFor is how long an instance counts as inactive. Afterwards it is preferred again, and if
// it still does not claim, its notices start one grace late once more.
const inactiveFor = time.Second

// inactivePeers holds the other instances that did not claim their due notices within a grace (50 ms), because they
// are paused, dead, cut off or busy. The zero value is ready to use. It is safe for concurrent use.
type inactivePeers struct {
	mu    sync.Mutex // serializes add
	until atomic.Pointer[map[string]time.Time]
}

// add marks instances as inactive. It reports whether at least one of them was active before.
func (a *inactivePeers) add(ids ...string) (fresh bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	next := map[string]time.Time{}
	if old := a.until.Load(); old != nil {
		maps.Copy(next, *old)
		maps.DeleteFunc(next, func(_ string, until time.Time) bool { return !now.Before(until) })
	}

	for _, id := range ids {
		if _, ok := next[id]; !ok && id != "" {
			next[id], fresh = now.Add(inactiveFor), true
		}
	}

	a.until.Store(&next)
	return fresh
}

// has reports whether an instance is inactive. A nil receiver has no inactive instances.
func (a *inactivePeers) has(id string) bool {
	if a == nil {
		return false
	}

	list := a.until.Load()
	if list == nil {
		return false
	}

	until, ok := (*list)[id]
	return ok && time.Now().Before(until)
}
