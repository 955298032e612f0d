package cli

import (
	"context"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"

	"notifier/internal/config"
	"notifier/internal/telemetry"
)

// telemetryWait bounds the final export to the collector.
const telemetryWait = 3 * time.Second

// unexported counts the spans of a command that were not exported.
type unexported struct{ n atomic.Int64 }

// Telemetry implements telemetry.Observer.
func (u *unexported) Telemetry(_, result string, n int) {
	if result != "exported" {
		u.n.Add(int64(n))
	}
}

// tracer creates the spans of a command; nil if none are exported. finish exports the remaining spans and reports the
// number of dropped ones.
func (a *command) tracer(cfg *config.Config) (tracer trace.Tracer, finish func()) {
	dropped := &unexported{}
	t := telemetry.New(telemetry.Options{OTel: config.OTel{Traces: cfg.Telemetry.Traces, Sampler: cfg.Telemetry.Sampler,
		Resource: cfg.Telemetry.Resource, Queue: cfg.Telemetry.Queue, Batch: cfg.Telemetry.Batch, Delay: cfg.Telemetry.Delay},
		Version: a.Version, Instance: cfg.Instance, Observer: dropped, Logger: zap.NewNop()})
	return t.Tracer(), func() {
		ctx, cancel := context.WithTimeout(context.Background(), telemetryWait)
		defer cancel()
		t.Close(ctx)
		if n := dropped.n.Load(); n > 0 {
			a.complain("%d spans were not exported: the OpenTelemetry collector cannot be reached, or refuses them", n)
		}
	}
}
