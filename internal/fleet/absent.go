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

// absences are the other instances that have not claimed, for a grace, due notices of theirs:
// they are stopped, cut off or dead, or have no slots. A fleet learns of that only when
// their signs have not come for seconds. The zero value is ready; it is safe for
// concurrent use.
type absences struct {
	mu    sync.Mutex // of add
	until atomic.Pointer[map[string]time.Time]
}

// add notes instances by their ids, and reports whether one of them was not absent
// before.
func (a *absences) add(ids ...string) (fresh bool) {
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

// has reports whether an instance is absent. Nil absences have none.
func (a *absences) has(id string) bool {
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
