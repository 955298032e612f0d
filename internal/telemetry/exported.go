package telemetry

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

// registerTelemetry creates the series, so that each counts from 0.
func (m *Metrics) registerTelemetry() {
	m.registry.MustRegister(m.telemetry)
	for _, signal := range TelemetrySignals {
		for _, result := range TelemetryResults {
			m.telemetry.WithLabelValues(signal, result)
		}
	}
}

// Telemetry counts spans and data points for an OpenTelemetry collector by result.
func (m *Metrics) Telemetry(signal, result string, n int) {
	if m == nil || n <= 0 {
		return
	}
	m.telemetry.WithLabelValues(oneOf(TelemetrySignals, signal), oneOf(TelemetryResults, result)).Add(float64(n))
}

// Gatherer returns a gatherer of all metrics, with the content of the metrics page.
func (m *Metrics) Gatherer() prometheus.Gatherer {
	return prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) { return m.gatherer(context.Background()).Gather() })
}
