package worker

import (
	"time"

	"go.opentelemetry.io/otel/trace"

	"notifier/internal/fleet"
	"notifier/internal/notice"
)

// Metrics counts the work of a worker, for example in counters and histograms of Prometheus. Its methods are called
// concurrently and must not block. prefix is that of a handler; it, outcome and reason have few values.
type Metrics interface {
	// Scheduled counts accepted notices.
	Scheduled(prefix string, n int)
	// Attempt counts an attempt. outcome is delivered, retry, dead or deferred. reason is that of a Reply.
	Attempt(prefix, outcome, reason string)
	// Lateness is how long after its due time a handler began. Attempts that a pause delayed are left out.
	Lateness(prefix string, d time.Duration)
	// Handled is how long a handler ran.
	Handled(prefix string, d time.Duration)
}

// counters are the engine's Metrics of a worker with Metrics.
type counters struct {
	*fleet.Counters
	m Metrics
}

// Scheduled counts accepted notices.
func (c counters) Scheduled(route string, n int) {
	c.Counters.Scheduled(route, n)
	c.m.Scheduled(route, n)
}

// Attempt counts an attempt.
func (c counters) Attempt(route string, o notice.Outcome, r notice.Reason) {
	c.Counters.Attempt(route, o, r)
	c.m.Attempt(route, string(o), string(r))
}

// Lateness counts the lateness of an attempt.
func (c counters) Lateness(route string, s notice.Source, held notice.Held, d time.Duration, span trace.SpanContext) {
	c.Counters.Lateness(route, s, held, d, span)
	if held.Own() {
		c.m.Lateness(route, d)
	}
}

// Handler counts the duration of a handler.
func (c counters) Handler(route string, d time.Duration, _ trace.SpanContext) { c.m.Handled(route, d) }
