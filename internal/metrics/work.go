package metrics

import (
	"maps"
	"time"

	"notifier/internal/notice"
)

// Work is what was done for a route in some time: by one instance, or by several
// once it is added up. As JSON it is what instances tell each other.
type Work struct {
	Outcomes map[notice.Outcome]int64 `json:"o,omitempty"`
	Late     Spread                   `json:"l,omitempty"`
}

// Work is all that was done for a route, by its name, since this process began.
func (m *Metrics) Work(route string) Work {
	w := Work{Outcomes: map[notice.Outcome]int64{}, Late: Spread{}}
	if m == nil || m.routes[route] == nil {
		return w
	}
	r := m.routes[route]
	for o, c := range r.attempts {
		if n := count(c); n > 0 {
			w.Outcomes[o] = n
		}
	}
	for i := range r.late.counts {
		if n := r.late.counts[i].Load(); n > 0 {
			w.Late[i>>coarse] += int64(n)
		}
	}
	return w
}

// Add adds what was done otherwise or at another time.
func (w *Work) Add(other Work) {
	if w.Outcomes == nil {
		w.Outcomes, w.Late = map[notice.Outcome]int64{}, Spread{}
	}
	for o, n := range other.Outcomes {
		w.Outcomes[o] += n
	}
	w.Late.Add(other.Late)
}

// Since is what was done after before was read.
func (w Work) Since(before Work) Work {
	out := Work{Outcomes: maps.Clone(w.Outcomes), Late: maps.Clone(w.Late)}
	for o, n := range before.Outcomes {
		if out.Outcomes[o] -= n; out.Outcomes[o] <= 0 {
			delete(out.Outcomes, o)
		}
	}
	for i, n := range before.Late {
		if out.Late[i] -= n; out.Late[i] <= 0 {
			delete(out.Late, i)
		}
	}
	return out
}

// None reports whether nothing was done.
func (w Work) None() bool { return len(w.Outcomes) == 0 && len(w.Late) == 0 }

// Attempts are those that were made: what was put off used none, and what a
// consumer reports is counted when it does.
func (w Work) Attempts() int64 {
	return w.Outcomes[notice.OutcomeDelivered] + w.Outcomes[notice.OutcomeRetry] + w.Outcomes[notice.OutcomeDead]
}

// Spread counts durations by buckets, four to each power of two: what is read from
// it is within 19 %. Only buckets in which there are some are kept.
type Spread map[int]int64

const coarse = 2 // bits: so many fine buckets make one of a Spread

// Bounds are the least duration of a bucket, and of the one above it.
func (Spread) Bounds(bucket int) (from, to time.Duration) {
	if bucket < 0 || bucket >= durationBuckets>>coarse {
		return 0, 0
	}
	a, _ := boundsOf(bucket << coarse)
	_, b := boundsOf(bucket<<coarse | (1<<coarse - 1))
	return time.Duration(a) * time.Microsecond, time.Duration(b) * time.Microsecond
}

// Add adds the counts of another.
func (s Spread) Add(other Spread) {
	for i, n := range other {
		if i >= 0 && i < durationBuckets>>coarse && n > 0 {
			s[i] += n
		}
	}
}

// Count is how many durations it holds.
func (s Spread) Count() int64 {
	total := int64(0)
	for _, n := range s {
		total += n
	}
	return total
}

// Quantile is the duration below which that part of all lies; 0 where there are
// none. It goes into a bucket in proportion.
func (s Spread) Quantile(q float64) time.Duration {
	total, below := s.Count(), int64(0)
	if total == 0 {
		return 0
	}
	for i := range durationBuckets >> coarse {
		n := s[i]
		if n > 0 && q*float64(total) <= float64(below+n) {
			from, to := s.Bounds(i)
			part := (q*float64(total) - float64(below)) / float64(n)
			return from + time.Duration(float64(to-from)*part)
		}
		below += n
	}
	return 0
}
