package fleet

import (
	"maps"
	"time"

	"notifier/internal/notice"
)

// Work is a route's work in a period, of one instance or added up over several. Its JSON form is part of an instance's
// heartbeat.
type Work struct {
	Outcomes map[notice.Outcome]int64 `json:"o,omitempty"`
	Late     Spread                   `json:"l,omitempty"`
}

// Add adds the work of another instance or period.
func (w *Work) Add(other Work) {
	if w.Outcomes == nil {
		w.Outcomes, w.Late = map[notice.Outcome]int64{}, Spread{}
	}

	for o, n := range other.Outcomes {
		w.Outcomes[o] += n
	}

	w.Late.Add(other.Late)
}

// Since returns the work done after before was read.
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

// None reports whether there was no work.
func (w Work) None() bool { return len(w.Outcomes) == 0 && len(w.Late) == 0 }

// Attempts returns the number of attempts. Deferrals are no attempts, and an attempt handed to a consumer counts when
// it is reported.
func (w Work) Attempts() int64 {
	return w.Outcomes[notice.OutcomeDelivered] + w.Outcomes[notice.OutcomeRetry] + w.Outcomes[notice.OutcomeDead]
}

// Spread counts durations in buckets, four to each power of two, so that a quantile is off by 19 % at most. Only
// buckets with durations are kept.
type Spread map[int]int64

const coarse = 2 // bits: each bucket of a Spread has 1<<coarse fine buckets

// Bounds returns the smallest duration of a bucket and of the next one.
func (Spread) Bounds(bucket int) (from, to time.Duration) {
	if bucket < 0 || bucket >= durationBuckets>>coarse {
		return 0, 0
	}

	a, _ := boundsOf(bucket << coarse)
	_, b := boundsOf(bucket<<coarse | (1<<coarse - 1))
	return time.Duration(a) * time.Microsecond, time.Duration(b) * time.Microsecond
}

// Add adds the counts of another Spread.
func (s Spread) Add(other Spread) {
	for i, n := range other {
		if i >= 0 && i < durationBuckets>>coarse && n > 0 {
			s[i] += n
		}
	}
}

// Count returns the number of durations.
func (s Spread) Count() int64 {
	total := int64(0)
	for _, n := range s {
		total += n
	}

	return total
}

// Quantile returns the duration below which the fraction q of all durations lies; 0 without durations. It interpolates
// within a bucket.
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
