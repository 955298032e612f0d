package problems

import (
	"context"
	"slices"
	"sync"
	"time"

	"notifier/internal/doctor"
)

// examineEvery is the interval of the checks while dashboards are open: about 150 commands. ExaminedFresh
// is the maximum age of the report on the page of the checks.
const (
	examineEvery  = 5 * time.Minute
	ExaminedFresh = 15 * time.Second
)

// Examiner runs the checks of doctor once for all visitors.
type Examiner struct {
	examine func(context.Context) (*doctor.Report, error)
	now     func() time.Time
	asked   chan struct{} // the checks are wanted, and none were made lately
	first   chan struct{} // closed after the first checks

	looking sync.Mutex

	mu     sync.Mutex
	report *doctor.Report
	err    error
	at     time.Time
}

// Get returns a report no older than fresh, and its time.
func (e *Examiner) Get(ctx context.Context, fresh time.Duration) (*doctor.Report, time.Time, error) {
	e.looking.Lock()
	defer e.looking.Unlock()
	e.mu.Lock()
	report, err, at := e.report, e.err, e.at
	e.mu.Unlock()
	if e.examine == nil || !at.IsZero() && e.now().Sub(at) < fresh {
		return report, at, err
	}

	report, err = e.examine(ctx)
	at = e.now()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.at.IsZero() {
		close(e.first)
	}

	e.report, e.err, e.at = report, err, at
	return report, at, err
}

// Awaited reports whether no checks were made yet.
func (e *Examiner) Awaited() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.examine != nil && e.at.IsZero()
}

// Examined returns a channel that is closed after the first checks.
func (e *Examiner) Examined() <-chan struct{} { return e.first }

// Ask makes the checks begin if the last ones are old, also without a live page.
func (e *Examiner) Ask() {
	e.mu.Lock()
	fresh := e.examine == nil || !e.at.IsZero() && e.now().Sub(e.at) < examineEvery
	e.mu.Unlock()
	if fresh {
		return
	}

	select {
	case e.asked <- struct{}{}:
	default:
	}
}

// unreached reports whether Redis did not answer the last checks.
func (e *Examiner) unreached() bool {
	found, _ := e.Troubles()
	return slices.ContainsFunc(found, func(f doctor.Finding) bool { return f.Check == "reachability" })
}

// Troubles returns the warnings and errors of the last report; false without a report.
func (e *Examiner) Troubles() ([]doctor.Finding, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.report == nil {
		return nil, false
	}

	var out []doctor.Finding
	for _, f := range e.report.Findings {
		if !f.Fixed && (f.Severity == doctor.Error || f.Severity == doctor.Warning) {
			out = append(out, f)
		}
	}

	return out, true
}

// examineOften runs the checks of doctor while dashboards are open.
func (s *Sampler) examineOften(ctx context.Context) {
	tick, full := time.NewTicker(sampleEvery), ""
	defer tick.Stop()
	for {
		asked := false
		select {
		case <-ctx.Done():
			return
		case <-s.Examiner.asked:
			asked = true
		case <-tick.C:
		}

		if asked || s.watched() {
			fresh := examineEvery
			if s.Examiner.unreached() {
				fresh = ExaminedFresh
			}

			if b := s.latest(); b != nil {
				if why, _ := b.Full(); why != full {
					full, fresh = why, 0 // the finding on memory has changed
				}
			}

			_, _, _ = s.Examiner.Get(ctx, fresh) // the page of the checks shows the error
		}
	}
}
