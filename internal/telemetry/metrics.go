package telemetry

import (
	"context"
	"encoding/hex"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	bridge "go.opentelemetry.io/contrib/bridges/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	data "go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/resource"
	collector "go.opentelemetry.io/proto/slim/otlp/collector/metrics/v1"
	common "go.opentelemetry.io/proto/slim/otlp/common/v1"
	metrics "go.opentelemetry.io/proto/slim/otlp/metrics/v1"
	resources "go.opentelemetry.io/proto/slim/otlp/resource/v1"

	"notifier/internal/config"
	"notifier/internal/pace"
)

// metricsLoop exports the metrics of a Prometheus registry at an interval.
type metricsLoop struct {
	exporter *exporter
	resource *resources.Resource
	producer metric.Producer
	interval time.Duration
}

func newMetricsLoop(s *config.OTel, x *exporter, r *resource.Resource, from prometheus.Gatherer) *metricsLoop {
	return &metricsLoop{exporter: x, resource: resourceOf(r), producer: bridge.NewMetricProducer(bridge.WithGatherer(from)),
		interval: s.Interval}
}

// run exports until ctx ends.
func (l *metricsLoop) run(ctx context.Context) {
	defer l.exporter.client.CloseIdleConnections()
	for pace.Wait(ctx, l.interval) {
		l.export(ctx)
	}
}

// export sends the metrics of this moment. A request that failed is not kept: the next has the
// same counters.
func (l *metricsLoop) export(ctx context.Context) {
	list, err := l.producer.Produce(ctx)
	if err != nil && len(list) == 0 {
		return // a metric that cannot be collected is missing at /metrics too
	}

	scope, n := &metrics.ScopeMetrics{Scope: &common.InstrumentationScope{Name: scopeName}}, 0
	for _, s := range list {
		for _, m := range s.Metrics {
			message, points := metricOf(m)
			if n += points; points > 0 {
				scope.Metrics = append(scope.Metrics, message)
			}
		}
	}

	request := &collector.ExportMetricsServiceRequest{ResourceMetrics: []*metrics.ResourceMetrics{{Resource: l.resource,
		ScopeMetrics: []*metrics.ScopeMetrics{scope}}}}
	reply := &collector.ExportMetricsServiceResponse{}
	if l.exporter.send(ctx, n, request, reply) {
		l.exporter.count(n, int(reply.GetPartialSuccess().GetRejectedDataPoints()), reply.GetPartialSuccess().GetErrorMessage())
	}
}

// metricOf is a metric as a message, and its number of data points. The bridge
// makes these kinds from counters, gauges, histograms and summaries.
func metricOf(m data.Metrics) (out *metrics.Metric, points int) {
	out = &metrics.Metric{Name: m.Name, Description: m.Description, Unit: m.Unit}
	switch d := m.Data.(type) {
	case data.Sum[float64]:
		out.Data = &metrics.Metric_Sum{Sum: &metrics.Sum{DataPoints: numbersOf(d.DataPoints), IsMonotonic: d.IsMonotonic,
			AggregationTemporality: cumulative}}
		points = len(d.DataPoints)
	case data.Gauge[float64]:
		out.Data = &metrics.Metric_Gauge{Gauge: &metrics.Gauge{DataPoints: numbersOf(d.DataPoints)}}
		points = len(d.DataPoints)
	case data.Histogram[float64]:
		h := &metrics.Histogram{AggregationTemporality: cumulative}
		for _, p := range d.DataPoints {
			sum := p.Sum
			h.DataPoints = append(h.DataPoints, &metrics.HistogramDataPoint{Attributes: setOf(p.Attributes), StartTimeUnixNano: nano(p.StartTime),
				TimeUnixNano: nano(p.Time), Count: p.Count, Sum: &sum, BucketCounts: p.BucketCounts, ExplicitBounds: p.Bounds,
				Exemplars: exemplarsOf(p.Exemplars)})
		}

		out.Data, points = &metrics.Metric_Histogram{Histogram: h}, len(h.DataPoints)
	case data.Summary:
		s := &metrics.Summary{}
		for _, p := range d.DataPoints {
			point := &metrics.SummaryDataPoint{Attributes: setOf(p.Attributes), StartTimeUnixNano: nano(p.StartTime), TimeUnixNano: nano(p.Time),
				Count: p.Count, Sum: p.Sum}
			for _, q := range p.QuantileValues {
				point.QuantileValues = append(point.QuantileValues, &metrics.SummaryDataPoint_ValueAtQuantile{Quantile: q.Quantile, Value: q.Value})
			}

			s.DataPoints = append(s.DataPoints, point)
		}

		out.Data, points = &metrics.Metric_Summary{Summary: s}, len(s.DataPoints)
	}

	return out, points
}

const cumulative = metrics.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE

func numbersOf(list []data.DataPoint[float64]) []*metrics.NumberDataPoint {
	out := make([]*metrics.NumberDataPoint, 0, len(list))
	for _, p := range list {
		out = append(out, &metrics.NumberDataPoint{Attributes: setOf(p.Attributes), StartTimeUnixNano: nano(p.StartTime),
			TimeUnixNano: nano(p.Time),
			Value:        &metrics.NumberDataPoint_AsDouble{AsDouble: p.Value}, Exemplars: exemplarsOf(p.Exemplars)})
	}

	return out
}

func exemplarsOf(list []data.Exemplar[float64]) []*metrics.Exemplar {
	var out []*metrics.Exemplar
	for _, e := range list {
		out = append(out, &metrics.Exemplar{TimeUnixNano: nano(e.Time), Value: &metrics.Exemplar_AsDouble{AsDouble: e.Value},
			TraceId: idOf(e.TraceID),
			SpanId:  idOf(e.SpanID), FilteredAttributes: attributesOf(e.FilteredAttributes)})
	}

	return out
}

// idOf is an id in bytes. The bridge leaves ids as the hexadecimal text of their labels.
func idOf(id []byte) []byte {
	if raw := make([]byte, hex.DecodedLen(len(id))); len(id) > 8 {
		if n, err := hex.Decode(raw, id); err == nil && (n == 8 || n == 16) {
			return raw
		}
	}
	return id
}

func setOf(s attribute.Set) []*common.KeyValue { return attributesOf(s.ToSlice()) }

func nano(t time.Time) uint64 {
	if t.IsZero() {
		return 0
	}
	return uint64(t.UnixNano())
}
