package telemetry

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// Fleet is this process's view of the instances.
type Fleet struct {
	// Alive includes this instance; 0 while the others are unknown.
	Alive, Leaving, Unresponsive int
	// Dead counts instances declared dead, Renamed how often this one was declared dead by others, and Failed its
	// heartbeats that could not be published.
	Dead, Renamed, Failed uint64
}

var (
	instancesDesc = desc("notifier_instances",
		"Instances by state, as seen by this process. living includes this process, and is 0 while the other instances are unknown.", "state")
	goneDesc    = desc("notifier_instances_gone_total", "Instances declared dead: no heartbeat and no connection to Redis.")
	renamedDesc = desc("notifier_counted_out_total",
		"How often others declared this process dead although it was running; it continued under a new id.")
	signsDesc = desc("notifier_signs_failed_total", "Heartbeats that this process could not publish.")
)

// fleetView collects the view of the instances. It needs no call to Redis.
type fleetView struct {
	ask atomic.Pointer[func() Fleet]
}

// ObserveFleet sets the function that each scrape calls for the view of the instances.
func (m *Metrics) ObserveFleet(ask func() Fleet) {
	if m == nil {
		return
	}
	m.fleet.ask.Store(&ask)
}

// Describe implements [prometheus.Collector].
func (f *fleetView) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{instancesDesc, goneDesc, renamedDesc, signsDesc} {
		ch <- d
	}
}

// Collect implements [prometheus.Collector].
func (f *fleetView) Collect(ch chan<- prometheus.Metric) {
	var now Fleet
	if ask := f.ask.Load(); ask != nil {
		now = (*ask)()
	}

	for state, n := range map[string]int{"living": now.Alive, "leaving": now.Leaving, "silent": now.Unresponsive} {
		ch <- value(instancesDesc, float64(n), state)
	}

	for d, n := range map[*prometheus.Desc]uint64{goneDesc: now.Dead, renamedDesc: now.Renamed, signsDesc: now.Failed} {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n))
	}
}
