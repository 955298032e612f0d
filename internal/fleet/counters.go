package fleet

import (
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"notifier/internal/notice"
	"notifier/internal/route"
)

// Counters count the work of the routes of a process, as heartbeats and pages show it. An engine without Prometheus counts with
// them alone; they ignore all else. Their methods are safe for concurrent use.
type Counters struct {
	routes map[string]*counted // is not changed
}

type counted struct {
	scheduled atomic.Int64
	outcomes  map[notice.Outcome]*atomic.Int64 // is not changed
	late      Durations
}

// NewCounters returns counters for some routes.
func NewCounters(routes []*route.Route) *Counters {
	c := &Counters{routes: map[string]*counted{}}
	for _, rt := range routes {
		r := &counted{outcomes: map[notice.Outcome]*atomic.Int64{}}
		for _, o := range notice.Outcomes {
			r.outcomes[o] = &atomic.Int64{}
		}

		c.routes[rt.Name] = r
	}

	return c
}

// Scheduled counts accepted notices.
func (c *Counters) Scheduled(route string, n int) {
	if r := c.routes[route]; r != nil {
		r.scheduled.Add(int64(n))
	}
}

// Attempt counts the outcome of an attempt or of a deferral.
func (c *Counters) Attempt(route string, o notice.Outcome, _ notice.Reason) {
	r := c.routes[route]
	if r == nil {
		return
	}

	if n := r.outcomes[o]; n != nil {
		n.Add(1)
	}
}

// Lateness counts the lateness of an exchange, unless another cause than the service has delayed it.
func (c *Counters) Lateness(route string, _ notice.Source, held notice.Held, d time.Duration, _ trace.SpanContext) {
	if r := c.routes[route]; r != nil && held.Own() {
		r.late.Add(d)
	}
}

// Totals returns the counts of the route with that name.
func (c *Counters) Totals(route string) Totals {
	t := NewTotals()
	r := c.routes[route]
	if r == nil {
		return t
	}

	t.Scheduled = r.scheduled.Load()
	for o, n := range r.outcomes {
		t.Outcomes[o] = n.Load()
	}

	late := r.late.Quantiles(0.5, 0.99)
	t.LatenessP50, t.LatenessP99 = late[0], late[1]
	return t
}

// Work returns the work for the route since the start of this process.
func (c *Counters) Work(route string) Work {
	w := Work{Outcomes: map[notice.Outcome]int64{}, Late: Spread{}}
	r := c.routes[route]
	if r == nil {
		return w
	}

	for o, counter := range r.outcomes {
		if n := counter.Load(); n > 0 {
			w.Outcomes[o] = n
		}
	}

	w.Late = r.late.Spread()
	return w
}

// Accepted returns the number of notices accepted by this process.
func (c *Counters) Accepted() (n int64) {
	for _, r := range c.routes {
		n += r.scheduled.Load()
	}

	return n
}

// The following are not counted.

func (*Counters) BodiesLost(string, int)                           {}
func (*Counters) Claim(notice.Source, notice.ClaimResult, int)     {}
func (*Counters) Copied(string, int)                               {}
func (*Counters) DataLost()                                        {}
func (*Counters) DeadRemoved(string, int)                          {}
func (*Counters) Event(notice.EventResult)                         {}
func (*Counters) ForeignKeys(string, int)                          {}
func (*Counters) Handler(string, time.Duration, trace.SpanContext) {}
func (*Counters) HistoryFailed(string, int)                        {}
func (*Counters) HistoryRows(int)                                  {}
func (*Counters) RedisError(string)                                {}
func (*Counters) RedisFull(bool)                                   {}
func (*Counters) Replayed(string)                                  {}
func (*Counters) Subscription()                                    {}
func (*Counters) Unconfirmed(string, int)                          {}
func (*Counters) Unsettled(string, int)                            {}
