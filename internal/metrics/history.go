package metrics

import "time"

// HistoryGauges is how the hand-over to the history stands.
type HistoryGauges struct {
	Backlog int64 // endings that the database has not confirmed
	Bound   int64 // how many Redis holds at most; 0 = this process has no history
	Lost    int64 // endings that were dropped, since ever
	Lag     time.Duration
}

var (
	historyBacklogDesc = desc("notifier_history_backlog", "Endings that the history's database has not confirmed; Redis holds them.")
	historyBoundDesc   = desc("notifier_history_backlog_bound", "How many endings Redis holds at most (NOTIFIER_HISTORY_BACKLOG).")
	historyLostDesc    = desc("notifier_history_lost",
		"Endings that were dropped and get no row, since ever: by the bound, or because Redis was short of memory.")
	historyLagDesc = desc("notifier_history_lag_seconds", "How long ago the oldest ending was that the history's database has not confirmed.")
)

// gauges of the history, if there is one.
func (h *HistoryGauges) gauges() snapshot {
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

// HistoryRows counts rows that were brought to the history.
func (m *Metrics) HistoryRows(n int) {
	if m == nil || n <= 0 {
		return
	}
	m.historyRows.Add(float64(n))
}

// HistoryFailed counts what failed on the way to it, n times.
func (m *Metrics) HistoryFailed(kind string, n int) {
	if m == nil || n <= 0 {
		return
	}
	m.historyFailures.WithLabelValues(oneOf(HistoryFailures, kind)).Add(float64(n))
}

// HistoryFailures are the kinds of failures on the way to the history.
var HistoryFailures = []string{"database", "redis", "row", "entry", "memory"}

// Replayed counts what came of an item of a replay.
func (m *Metrics) Replayed(result string) {
	if m == nil {
		return
	}
	m.replayed.WithLabelValues(oneOf(ReplayResults, result)).Inc()
}

// ReplayResults are what may come of an item of a replay.
var ReplayResults = []string{"sent", "pending", "dead", "cancelled", "gone", "body_hashed", "body_dropped", "secret_not_kept", "unreadable",
	"no_route", "unfit"}
