package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"notifier/internal/notice"
	"notifier/internal/stats"
)

// Totals returns the counts of the route with that name.
func (m *Metrics) Totals(route string) stats.Totals {
	s := stats.NewTotals()
	if m == nil || m.routes[route] == nil {
		return s
	}

	r := m.routes[route]
	s.Scheduled = count(r.scheduled)
	for o, c := range r.attempts {
		s.Outcomes[o] = count(c)
	}

	late := r.late.Quantiles(0.5, 0.99)
	s.LatenessP50, s.LatenessP99 = late[0], late[1]
	return s
}

// Work returns the work for the route since the start of this process.
func (m *Metrics) Work(route string) stats.Work {
	w := stats.Work{Outcomes: map[notice.Outcome]int64{}, Late: stats.Spread{}}
	if m == nil || m.routes[route] == nil {
		return w
	}

	r := m.routes[route]
	for o, c := range r.attempts {
		if n := count(c); n > 0 {
			w.Outcomes[o] = n
		}
	}

	w.Late = r.late.Spread()
	return w
}

func count(c prometheus.Counter) int64 {
	var out dto.Metric
	if err := c.Write(&out); err != nil {
		return 0
	}

	return int64(out.GetCounter().GetValue())
}
