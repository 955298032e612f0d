package api

import (
	"sync"
	"time"

	"golang.org/x/time/rate"

	"notifier/internal/route"
)

// The limits of tests per client and route, at this instance. A lower RATE of the route limits them
// further.
const (
	testsASecond = 0.1
	testsAtOnce  = 3
)

// testLimits limits the tests of each client on each route.
type testLimits struct {
	mu sync.Mutex
	by map[[2]string]*rate.Limiter // by client and route
}

// admit reports whether the client may send a test now, and otherwise the time to wait.
func (l *testLimits) admit(client string, rt *route.Route, now time.Time) (wait time.Duration, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	id := [2]string{client, rt.Name}
	limit := l.by[id]
	if limit == nil {
		limit = rate.NewLimiter(testsASecond, testsAtOnce)
		if rt.Rate > 0 && rt.Rate < testsASecond {
			limit = rate.NewLimiter(rate.Limit(rt.Rate), 1)
		}

		if l.by == nil {
			l.by = map[[2]string]*rate.Limiter{}
		}

		l.by[id] = limit
	}

	r := limit.ReserveN(now, 1)
	if wait = r.DelayFrom(now); wait > 0 {
		r.CancelAt(now)
		return wait, false
	}

	return 0, true
}
