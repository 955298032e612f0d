package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"notifier/internal/notice"
)

// Stats is what this process has counted of a route since it started.
type Stats struct {
	Scheduled int64
	Outcomes  map[notice.Outcome]int64
	// LatenessP50 and LatenessP99 are estimated from the histogram's buckets;
	// zero if nothing was handled.
	LatenessP50, LatenessP99 time.Duration
}

// Stats reads the counters of a route by its name.
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
	m.outcomes(route, s.Outcomes)
	counts := make([]uint64, len(latenessBuckets)+1)
	for _, o := range r.lateness {
		addBuckets(counts, o)
	}
	s.LatenessP50, s.LatenessP99 = quantile(counts, 0.5), quantile(counts, 0.99)
	return s
}

// outcomes adds up a route's attempts over all reasons. It goes by the series
// that are there: asking for one would make it.
func (m *Metrics) outcomes(route string, into map[notice.Outcome]int64) {
	only := prometheus.NewRegistry()
	if only.Register(m.attempts) != nil {
		return
	}
	families, err := only.Gather()
	if err != nil {
		return
	}
	for _, f := range families {
		for _, series := range f.GetMetric() {
			labels := map[string]string{}
			for _, l := range series.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if labels["route"] == route {
				into[notice.Outcome(labels["outcome"])] += int64(series.GetCounter().GetValue())
			}
		}
	}
}

func count(c prometheus.Counter) int64 {
	var out dto.Metric
	if err := c.Write(&out); err != nil {
		return 0
	}
	return int64(out.GetCounter().GetValue())
}

// addBuckets adds a histogram's counts, not cumulative, the last for what is
// beyond all bounds.
func addBuckets(counts []uint64, o prometheus.Observer) {
	var out dto.Metric
	m, ok := o.(prometheus.Metric)
	if !ok || m.Write(&out) != nil {
		return
	}
	before := uint64(0)
	h := out.GetHistogram()
	for i, b := range h.GetBucket() {
		counts[i] += b.GetCumulativeCount() - before
		before = b.GetCumulativeCount()
	}
	counts[len(counts)-1] += h.GetSampleCount() - before
}

// quantile goes into the bucket that holds it in proportion, as Prometheus's
// histogram_quantile does; beyond the last bound it says the last bound.
func quantile(counts []uint64, q float64) time.Duration {
	total := uint64(0)
	for _, c := range counts {
		total += c
	}
	if total == 0 {
		return 0
	}
	rank, lower := q*float64(total), 0.0
	for i, upper := range latenessBuckets {
		if c := float64(counts[i]); rank <= c && c > 0 {
			return time.Duration((lower + (upper-lower)*rank/c) * float64(time.Second))
		} else {
			rank -= c
		}
		lower = upper
	}
	return time.Duration(lower * float64(time.Second))
}
