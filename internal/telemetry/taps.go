package telemetry

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// CopyResults are the results of notifier_tap_copies_total.
var CopyResults = []string{"published", "dropped", "slow"}

var tapsDesc = desc("notifier_taps", "Taps that are open at this instance: streams of copies of attempts.")

// taps is a Collector of the number of open taps.
type taps struct {
	ask atomic.Pointer[func() int]
}

// Describe implements [prometheus.Collector].
func (t *taps) Describe(ch chan<- *prometheus.Desc) { ch <- tapsDesc }

// Collect implements [prometheus.Collector].
func (t *taps) Collect(ch chan<- prometheus.Metric) {
	n := 0
	if ask := t.ask.Load(); ask != nil {
		n = (*ask)()
	}

	ch <- value(tapsDesc, float64(n))
}

// registerTaps registers the metrics. No alert counts copies, so that their series appear with the first copy.
func (m *Metrics) registerTaps() {
	m.copies = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "notifier_tap_copies_total",
		Help: "Copies of attempts for taps: published, " +
			"dropped because of the limits on all taps or because Redis failed, or dropped because the reader of one tap was slow."},
		[]string{"result"})
	m.registry.MustRegister(m.copies, &m.taps)
}

// ObserveTaps sets the function that counts the open taps when the metrics are collected.
func (m *Metrics) ObserveTaps(ask func() int) {
	if m != nil {
		m.taps.ask.Store(&ask)
	}
}

// Copied counts copies of attempts.
func (m *Metrics) Copied(result string, n int) {
	if m != nil && n > 0 {
		m.copies.WithLabelValues(oneOf(CopyResults, result)).Add(float64(n))
	}
}
