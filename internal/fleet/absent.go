package fleet

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"
)

// absentFor is how long nothing is left to an instance that was found absent. It is
// found out anew then, at the cost of a grace.
const absentFor = time.Second

// Absent are the other instances that have left due, for a grace, what was theirs to do:
// they are stopped, cut off or dead, or have no slots. A fleet learns of that only when
// their signs have not come for seconds. The zero value is ready; it is safe for
// concurrent use.
type Absent struct {
	mu    sync.Mutex // of Add
	until atomic.Pointer[map[string]time.Time]
}

// Add notes instances by their ids, and reports whether one of them was not absent
// before.
func (a *Absent) Add(ids ...string) (fresh bool) {
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
			next[id], fresh = now.Add(absentFor), true
		}
	}
	a.until.Store(&next)
	return fresh
}

// Has reports whether an instance is absent. A nil Absent has none.
func (a *Absent) Has(id string) bool {
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
