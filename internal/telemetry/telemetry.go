package telemetry

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	sdkversion "go.opentelemetry.io/otel/sdk"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"

	"notifier/internal/config"
)

const scopeName = "notifier"

// Options of New.
type Options struct {
	config.OTel
	// Version and Instance describe the process.
	Version, Instance string
	// Gatherer has the metrics to export. Nil: none are exported.
	Gatherer prometheus.Gatherer
	Observer Observer
	Logger   *zap.Logger
}

// Telemetry exports the spans and metrics of a process. Its zero value exports none.
type Telemetry struct {
	provider *sdk.TracerProvider
	metrics  *metricsLoop
}

// New makes the exporters that the settings name, and connects to nothing yet.
func New(o Options) *Telemetry {
	t := &Telemetry{}
	r := resource.NewSchemaless(append([]attribute.KeyValue{attribute.String("service.name", "notifier"),
		attribute.String("service.version", o.Version), attribute.String("service.instance.id", o.Instance),
		attribute.String("telemetry.sdk.language", "go"), attribute.String("telemetry.sdk.name", "opentelemetry"),
		attribute.String("telemetry.sdk.version", sdkversion.Version())}, o.Resource...)...)
	if o.Traces != nil {
		queue := newSpanQueue(&o.OTel, newExporter(signalTraces, o.Traces, o.Logger, o.Observer), r)
		t.provider = sdk.NewTracerProvider(sdk.WithSpanProcessor(queue), sdk.WithSampler(sampler(o.Sampler)), sdk.WithResource(r))
	}

	if o.Metrics != nil && o.Gatherer != nil {
		t.metrics = newMetricsLoop(&o.OTel, newExporter(signalMetrics, o.Metrics, o.Logger, o.Observer), r, o.Gatherer)
	}

	return t
}

// sampler samples roots as the settings say, by default all.
func sampler(s config.TraceSampler) sdk.Sampler {
	switch s.Name {
	case "parentbased_always_off":
		return sdk.ParentBased(sdk.NeverSample())
	case "parentbased_traceidratio":
		return sdk.ParentBased(sdk.TraceIDRatioBased(s.Ratio))
	case "always_on":
		return sdk.AlwaysSample()
	case "always_off":
		return sdk.NeverSample()
	case "traceidratio":
		return sdk.TraceIDRatioBased(s.Ratio)
	}

	return sdk.ParentBased(sdk.AlwaysSample())
}

// Tracer makes the spans of the process. It is nil if they are not exported.
func (t *Telemetry) Tracer() trace.Tracer {
	if t == nil || t.provider == nil {
		return nil
	}
	return t.provider.Tracer(scopeName)
}

// Run exports metrics until ctx ends, and returns nil.
func (t *Telemetry) Run(ctx context.Context) error {
	if t != nil && t.metrics != nil {
		t.metrics.run(ctx)
	}
	return nil
}

// Close exports the spans that wait and the last metrics, until ctx ends. Run has returned.
func (t *Telemetry) Close(ctx context.Context) {
	if t == nil {
		return
	}

	if t.provider != nil {
		_ = t.provider.Shutdown(ctx) // its error is that ctx ended
	}

	if t.metrics != nil {
		t.metrics.export(ctx)
		t.metrics.exporter.client.CloseIdleConnections()
	}
}
