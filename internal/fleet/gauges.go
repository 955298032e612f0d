package fleet

import (
	"slices"
	"time"

	"notifier/internal/notice"
)

// Totals are a route's counts in this process since its start.
type Totals struct {
	Scheduled int64
	Outcomes  map[notice.Outcome]int64
	// LatenessP50 and LatenessP99 are exact to 6 %; zero without exchanges.
	LatenessP50, LatenessP99 time.Duration
}

// NewTotals returns totals without any work.
func NewTotals() Totals {
	t := Totals{Outcomes: map[notice.Outcome]int64{}}
	for _, o := range notice.Outcomes {
		t.Outcomes[o] = 0
	}

	return t
}

// RouteStats are the numbers of a route in this process since its start.
type RouteStats struct {
	Prefix   string
	InFlight int
	Outcomes map[notice.Outcome]int64
	// LatenessP50 and LatenessP99 are quantiles of the time between the due time and the handler's start; zero before the
	// first attempt.
	LatenessP50 time.Duration
	LatenessP99 time.Duration
}

// Readiness says whether an instance does its work.
type Readiness struct {
	Ready bool
	// Reasons says why this process is not ready, and what else needs attention.
	Reasons []string
	// Degraded lists the limitations with which the service works.
	Degraded []Condition
}

// Condition is a limitation with which the service works.
type Condition struct {
	Reason string
	// Urgent means that data are lost or deliveries stop, Full that Redis has reached maxmemory.
	Urgent, Full bool
}

// AllReasons returns the reasons and those of the conditions.
func (r Readiness) AllReasons() []string {
	all := slices.Clone(r.Reasons)
	for _, c := range r.Degraded {
		all = append(all, c.Reason)
	}

	return all
}

// Gauges are the values of one moment that a scrape reads.
type Gauges struct {
	Routes []RouteGauges
	// History is nil without an outbox.
	History *HistoryGauges
	// HookBacklog is the number of deaths whose hook's notice is not scheduled yet; -1 = no route has a hook.
	HookBacklog int64
	// Missing is the number of a cluster's shards that Routes does not include, because their node does not answer.
	Missing int
	// Orphaned is the number of notices whose prefix no route matches.
	Orphaned int64
	// Unhandled is the number of recorded prefixes with pending notices that no running worker handles; -1 = unknown.
	Unhandled int
	// SealKeys is the number of keys of sealed notices by the name of their service key; nil = not counted.
	SealKeys map[string]int
	// SealedWaiting is the number of all overdue notices of routes with due notices that no running instance can open; -1 = no route seals
	// its notices.
	SealedWaiting int64
	// EventsFlowing reports whether expired events arrive and trigger claims. Without them the reconciler claims due
	// notices.
	EventsFlowing bool
}

// Recorded is a prefix that is recorded for workers.
type Recorded struct {
	Prefix  string
	Workers int // running ones with a handler for it; -1 = unknown, the node that stores it does not answer
	// Handled is when a worker last reported a handler for it; zero = unknown.
	Handled time.Time
}

// Unhandled returns the prefix among recorded ones if no running worker has a handler for it.
func Unhandled(list []Recorded, prefix string) (x Recorded, ok bool) {
	i := slices.IndexFunc(list, func(x Recorded) bool { return x.Prefix == prefix && x.Workers == 0 })
	if i < 0 {
		return x, false
	}

	return list[i], true
}

// RouteGauges are the values of one route, in Redis and in this process.
type RouteGauges struct {
	Route   string // its name
	Pending int64  // scheduled and claimed
	Overdue int64  // due and not claimed
	// Due are the numbers of notices that become due within each time of store.DueWithin.
	Due     []int64
	Dead    int64
	Settled int64
	// RepeatWindow is how long after its settle a notice's repeated schedule call is recognised, and RepeatSetting the
	// configured time.
	RepeatWindow, RepeatSetting time.Duration
	InFlight                    int64 // in this process
	Paused                      bool
	// due notices that wait for a limit, a host, the end of a pause, or another notice of their sequence,
	// at all instances together; -1 = unknown
	Waiting int64
	// LongestWait is how long the first of the parked notices has waited; -1 = the route is not ordered.
	LongestWait      time.Duration
	HostsWaiting     int // hosts without a free slot
	ReceiversFailing int // receivers failing for more than 15 minutes; -1 = unknown
}

// HistoryGauges is the state of the outbox of the history.
type HistoryGauges struct {
	Backlog int64 // finalized notices that the database has not confirmed
	Bound   int64 // maximum number in Redis; 0 = this process has no history
	Lost    int64 // dropped in total
	Lag     time.Duration
}
