package engine

import (
	"notifier/internal/adopt"
	"notifier/internal/dispatch"
	"notifier/internal/history"
	"notifier/internal/listener"
	"notifier/internal/replay"
	"notifier/internal/stats"
	"notifier/internal/tap"
)

// Metrics counts the work of an engine. The Metrics of package metrics export the counts to Prometheus, *[stats.Counters] keeps
// the counts that heartbeats and pages show.
type Metrics interface {
	adopt.Observer
	dispatch.Observer
	history.Observer
	listener.Observer
	replay.Observer
	tap.Observer

	DataLost()
	ForeignKeys(route string, n int)
	RedisError(op string)
	RedisFull(full bool)
	Unconfirmed(op string, n int)

	Accepted() int64
	Totals(route string) stats.Totals
	Work(route string) stats.Work
}
