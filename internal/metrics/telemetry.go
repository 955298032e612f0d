package metrics

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// TelemetrySignals and TelemetryResults are the labels of notifier_telemetry_items_total.
var (
	TelemetrySignals = []string{"traces", "metrics"}
	TelemetryResults = []string{"exported", "overflow", "failed", "rejected"}
)

// registerTelemetry makes the series, so that each counts from the start.
func (m *Metrics) registerTelemetry() {
	m.registry.MustRegister(m.telemetry)
	for _, signal := range TelemetrySignals {
		for _, result := range TelemetryResults {
			m.telemetry.WithLabelValues(signal, result)
		}
	}
}

// Telemetry counts spans and data points on their way to an OpenTelemetry collector.
func (m *Metrics) Telemetry(signal, result string, n int) {
	if m == nil || n <= 0 {
		return
	}
	m.telemetry.WithLabelValues(oneOf(TelemetrySignals, signal), oneOf(TelemetryResults, result)).Add(float64(n))
}

// Gatherer has all metrics, as the page of the metrics shows them.
func (m *Metrics) Gatherer() prometheus.Gatherer {
	return prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) { return m.gatherer(context.Background()).Gather() })
}
