package metrics

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// Fleet is what this process knows of the instances.
type Fleet struct {
	// Living includes this one; it is 0 while the others are not known.
	Living, Leaving, Silent int
	// Gone counts instances that were found dead, Renamed how often this one was
	// taken for dead, Failed its signs of life that did not arrive.
	Gone, Renamed, Failed uint64
}

var (
	instancesDesc = desc("notifier_instances",
		"Instances as this process knows them; living includes it, and is 0 while the fleet is unknown.", "state")
	goneDesc    = desc("notifier_instances_gone_total", "Instances found dead: their connections were gone and they gave no sign of life.")
	renamedDesc = desc("notifier_counted_out_total",
		"How often this process was found dead by others although it lived, and went on under a new id.")
	signsDesc = desc("notifier_signs_failed_total", "Signs of life of this process that did not arrive.")
)

// fleet is a Collector of what is asked for. Unlike what Redis holds it is
// known without asking Redis.
type fleet struct {
	ask atomic.Pointer[func() Fleet]
}

// ObserveFleet sets who is asked for the fleet whenever somebody scrapes.
func (m *Metrics) ObserveFleet(ask func() Fleet) {
	if m == nil {
		return
	}
	m.fleet.ask.Store(&ask)
}

// Describe implements [prometheus.Collector].
func (f *fleet) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{instancesDesc, goneDesc, renamedDesc, signsDesc} {
		ch <- d
	}
}

// Collect implements [prometheus.Collector].
func (f *fleet) Collect(ch chan<- prometheus.Metric) {
	var now Fleet
	if ask := f.ask.Load(); ask != nil {
		now = (*ask)()
	}
	for state, n := range map[string]int{"living": now.Living, "leaving": now.Leaving, "silent": now.Silent} {
		ch <- value(instancesDesc, float64(n), state)
	}
	for d, n := range map[*prometheus.Desc]uint64{goneDesc: now.Gone, renamedDesc: now.Renamed, signsDesc: now.Failed} {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n))
	}
}
