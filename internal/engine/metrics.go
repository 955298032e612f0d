package engine

import (
	"notifier/internal/dispatch"
	"notifier/internal/fleet"
	"notifier/internal/history"
	"notifier/internal/intake"
	"notifier/internal/jobs"
	"notifier/internal/listener"
	"notifier/internal/tracing"
)

// Metrics counts the work of an engine. The Metrics of package telemetry export the counts to Prometheus, *[fleet.Counters] keeps
// the counts that heartbeats and pages show.
type Metrics interface {
	intake.AdopterObserver
	dispatch.Observer
	history.Observer
	listener.Observer
	jobs.Observer
	tracing.CopyObserver

	DataLost()
	DeadRemoved(route string, n int)
	ForeignKeys(route string, n int)
	RedisError(op string)
	RedisFull(full bool)
	Unconfirmed(op string, n int)

	Accepted() int64
	Totals(route string) fleet.Totals
	Work(route string) fleet.Work
}
