package telemetry

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"notifier/internal/fleet"
)

func TestHistoryGaugesNeedHistory(t *testing.T) {
	m := NewMetrics(MetricsOptions{History: true})
	page := func() string {
		w := httptest.NewRecorder()
		m.Page().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		return w.Body.String()
	}
	var g fleet.Gauges
	m.Observe(func(context.Context) (fleet.Gauges, error) { return g, nil })
	if text := page(); strings.Contains(text, "\nnotifier_history_backlog") {
		t.Errorf("without a history:\n%s", text)
	}
	g.History = &fleet.HistoryGauges{Backlog: 7, Bound: 1000, Lost: 3, Lag: 90 * time.Second}
	m.HistoryRows(5)
	m.HistoryFailed("memory", 2)
	m.HistoryFailed("what", 1)
	text := page()
	for _, want := range []string{"notifier_history_backlog 7", "notifier_history_backlog_bound 1000", "notifier_history_lost 3",
		"notifier_history_lag_seconds 90",
		"notifier_history_rows_total 5", `notifier_history_failures_total{kind="memory"} 2`, `notifier_history_failures_total{kind="database"} 0`,
		`notifier_history_failures_total{kind="other"} 1`} {
		if !strings.Contains(text, "\n"+want+"\n") {
			t.Errorf("no %s", want)
		}
	}
	g.History = &fleet.HistoryGauges{Backlog: 7}
	if text := page(); strings.Contains(text, "\nnotifier_history_backlog_bound") {
		t.Error("a bound where this process has no history")
	}
}
