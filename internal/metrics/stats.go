package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"notifier/internal/notice"
)

// Stats are a route's counts in this process since its start.
type Stats struct {
	Scheduled int64
	Outcomes  map[notice.Outcome]int64
	// LatenessP50 and LatenessP99 are exact to 6 %; zero without exchanges.
	LatenessP50, LatenessP99 time.Duration
}

// Stats returns the counts of the route with that name.
func (m *Metrics) Stats(route string) Stats {
	s := Stats{Outcomes: map[notice.Outcome]int64{}}
	for _, o := range notice.Outcomes {
		s.Outcomes[o] = 0
	}

	if m == nil || m.routes[route] == nil {
		return s
	}

	r := m.routes[route]
	s.Scheduled = count(r.scheduled)
	for o, c := range r.attempts {
		s.Outcomes[o] = count(c)
	}

	late := r.late.quantiles(0.5, 0.99)
	s.LatenessP50, s.LatenessP99 = late[0], late[1]
	return s
}

func count(c prometheus.Counter) int64 {
	var out dto.Metric
	if err := c.Write(&out); err != nil {
		return 0
	}

	return int64(out.GetCounter().GetValue())
}
