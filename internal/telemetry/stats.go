package telemetry

import "notifier/internal/fleet"

// Totals returns the counts of the route with that name.
func (m *Metrics) Totals(route string) fleet.Totals {
	if m == nil {
		return fleet.NewTotals()
	}
	return m.counters.Totals(route)
}

// Work returns the work for the route since the start of this process.
func (m *Metrics) Work(route string) fleet.Work {
	if m == nil {
		return fleet.Work{}
	}
	return m.counters.Work(route)
}

// Accepted returns the number of notices accepted by this process.
func (m *Metrics) Accepted() int64 {
	if m == nil {
		return 0
	}
	return m.counters.Accepted()
}
