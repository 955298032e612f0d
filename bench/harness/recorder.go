package harness

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"notifier/bench/peer"
)

// Recorder notes when each job was handled. Jobs 0…n-1 are its own; any other
// id that is handled is a stray: a job that was not due for a day.
type Recorder struct {
	due     []time.Time
	first   []atomic.Int64 // Unix ns of the first handling, 0 = none yet
	count   []atomic.Int32
	handled atomic.Int64 // different jobs
	last    atomic.Int64 // Unix ns of the latest first handling
	strays  atomic.Int64
	all     chan struct{}
}

// NewRecorder waits for one handling of each due time's job.
func NewRecorder(due []time.Time) *Recorder {
	return &Recorder{due: due, first: make([]atomic.Int64, len(due)), count: make([]atomic.Int32, len(due)), all: make(chan struct{})}
}

// Handle is the peer.Handle of this recorder.
func (r *Recorder) Handle(id string) { r.handleAt(id, time.Now()) }

func (r *Recorder) handleAt(id string, at time.Time) {
	n, ok := peer.Index(id)
	if !ok || n >= len(r.due) {
		r.strays.Add(1)
		return
	}

	if r.count[n].Add(1) > 1 {
		return
	}

	ns := at.UnixNano()
	r.first[n].Store(ns)
	for {
		last := r.last.Load()
		if ns <= last || r.last.CompareAndSwap(last, ns) {
			break
		}
	}

	if r.handled.Add(1) == int64(len(r.due)) {
		close(r.all)
	}
}

// Wait returns once all jobs were handled, or at the deadline.
func (r *Recorder) Wait(ctx context.Context, deadline time.Time) error {
	if len(r.due) == 0 {
		return nil
	}

	t := time.NewTimer(time.Until(deadline))
	defer t.Stop()
	select {
	case <-r.all:
		return nil
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Counts adds what no job may be: early, missing, doubled.
func (r *Recorder) Counts(v Values) {
	var early, missing, doubled int
	for n := range r.due {
		switch c := r.count[n].Load(); {
		case c == 0:
			missing++
			continue
		case c > 1:
			doubled++
		}
		if r.first[n].Load() < r.due[n].UnixNano() {
			early++
		}
	}

	v["jobs"] = float64(len(r.due))
	v["early"] = float64(early) + float64(r.strays.Load())
	v["missing"] = float64(missing)
	v["doubled"] = float64(doubled)
}

// late returns the sorted latenesses in ms of the handled jobs that counts selects.
func (r *Recorder) late(counts func(n int) bool) []float64 {
	late := make([]float64, 0, len(r.due))
	for n := range r.due {
		if ns := r.first[n].Load(); ns != 0 && counts(n) {
			late = append(late, float64(ns-r.due[n].UnixNano())/1e6)
		}
	}

	slices.Sort(late)
	return late
}

// Lateness adds mean, median, 99th percentile and maximum in ms, of the jobs
// that were handled.
func (r *Recorder) Lateness(v Values) {
	late := r.late(func(int) bool { return true })
	if len(late) == 0 {
		return
	}

	var sum float64
	for _, l := range late {
		sum += l
	}

	v["mean_ms"] = sum / float64(len(late))
	v["p50_ms"] = Quantile(late, 0.5)
	v["p99_ms"] = Quantile(late, 0.99)
	v["max_ms"] = late[len(late)-1]
}

// Quantile is the q-quantile of sorted values: the smallest that at least a
// share q of them does not exceed.
func Quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}

	n := int(q*float64(len(sorted)) + 0.999999)
	return sorted[min(max(n, 1), len(sorted))-1]
}

// Rate is jobs a second from start to the last job's handling.
func (r *Recorder) Rate(start time.Time) (float64, error) {
	last := time.Unix(0, r.last.Load())
	if r.handled.Load() == 0 {
		return 0, fmt.Errorf("no job was handled")
	}

	d := last.Sub(start)
	if d <= 0 {
		return 0, fmt.Errorf("all jobs were handled %s before they were due", -d)
	}

	return float64(r.handled.Load()) / d.Seconds(), nil
}

// Pace returns the jobs a second between the first and the last handler. It is the rate of a
// peer that starts late because its due times are whole seconds.
func (r *Recorder) Pace() (float64, bool) {
	first := int64(math.MaxInt64)
	for n := range r.first {
		if ns := r.first[n].Load(); ns != 0 {
			first = min(first, ns)
		}
	}

	d := time.Duration(r.last.Load() - first)
	if r.handled.Load() < 2 || d <= 0 {
		return 0, false
	}

	return float64(r.handled.Load()-1) / d.Seconds(), true
}
