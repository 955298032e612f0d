package telemetry

import (
	"notifier/internal/fleet"
)

var (
	historyBacklogDesc = desc("notifier_history_backlog", "Finalized notices buffered in Redis that the history's database has not confirmed.")
	historyBoundDesc   = desc("notifier_history_backlog_bound", "Maximum number of finalized notices buffered in Redis "+
		"(NOTIFIER_HISTORY_BACKLOG).")
	historyLostDesc = desc("notifier_history_lost",
		"Finalized notices dropped without a history entry, in total: above the bound, or because Redis was short of memory.")
	historyLagDesc = desc("notifier_history_lag_seconds", "Age of the oldest finalized notice that the history's database has not confirmed.")
)

// historyGauges returns the gauges of the history; none for nil.
func historyGauges(h *fleet.HistoryGauges) snapshot {
	if h == nil {
		return nil
	}

	s := snapshot{value(historyBacklogDesc, float64(h.Backlog)), value(historyLostDesc, float64(h.Lost)),
		value(historyLagDesc, h.Lag.Seconds())}
	if h.Bound > 0 {
		s = append(s, value(historyBoundDesc, float64(h.Bound)))
	}

	return s
}

// HistoryRows counts entries written to the history.
func (m *Metrics) HistoryRows(n int) {
	if m == nil || n <= 0 {
		return
	}
	m.historyRows.Add(float64(n))
}

// HistoryFailed counts n failures of the relay to the history.
func (m *Metrics) HistoryFailed(kind string, n int) {
	if m == nil || n <= 0 {
		return
	}
	m.historyFailures.WithLabelValues(oneOf(HistoryFailures, kind)).Add(float64(n))
}

// HistoryFailures are the kinds of failures of the relay to the history.
var HistoryFailures = []string{"database", "redis", "row", "entry", "memory"}

// Replayed counts the result of one item of a replay.
func (m *Metrics) Replayed(result string) {
	if m == nil {
		return
	}
	m.replayed.WithLabelValues(oneOf(ReplayResults, result)).Inc()
}

// ReplayResults are the results of an item of a replay.
var ReplayResults = []string{"sent", "pending", "dead", "cancelled", "gone", "body_hashed", "body_dropped", "secret_not_kept",
	"forgotten", "key_lost", "unreadable", "no_route", "unfit"}
