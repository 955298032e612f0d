package app

import (
	"context"
	"time"

	"notifier/internal/telemetry"
)

// telemetryWait is how long a stop waits for the collector, within stopReserve.
const telemetryWait = 3 * time.Second

// newTelemetry makes the exporters of spans and metrics. They count in the metrics.
func (p *Process) newTelemetry() {
	p.telemetry = telemetry.New(telemetry.Options{OTel: p.o.Config.Telemetry, Version: p.o.Version, Instance: p.o.Config.Instance,
		Gatherer: p.metrics.Gatherer(), Observer: p.metrics, Logger: p.o.Logger})
}

// closeTelemetry exports the last spans and metrics.
func (p *Process) closeTelemetry(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, telemetryWait)
	defer cancel()
	p.telemetry.Close(ctx)
}

// dropTelemetry ends the exporters of a process that does not start.
func (p *Process) dropTelemetry() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	p.telemetry.Close(ctx)
}
