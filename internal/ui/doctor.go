package ui

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"notifier/internal/doctor"
)

// examineEvery is the interval of the checks while dashboards are open: about 150 commands. examinedFresh
// is the maximum age of the report on the page of the checks.
const (
	examineEvery  = 5 * time.Minute
	examinedFresh = 15 * time.Second
)

// examiner runs the checks of doctor once for all visitors.
type examiner struct {
	examine func(context.Context) (*doctor.Report, error)
	now     func() time.Time
	asked   chan struct{} // a page shows the checks, and none were made yet

	looking sync.Mutex

	mu     sync.Mutex
	report *doctor.Report
	err    error
	at     time.Time
}

// findingRow is a finding of doctor.
type findingRow struct {
	Check, Node, Message, Remedy string
	Level                        level
	Severity                     string
}

// get returns a report no older than fresh.
func (e *examiner) get(ctx context.Context, fresh time.Duration) (*doctor.Report, time.Time, error) {
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
	e.report, e.err, e.at = report, err, at
	return report, at, err
}

// awaited reports whether no checks were made yet.
func (e *examiner) awaited() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.examine != nil && e.at.IsZero()
}

// ask makes the first checks begin, also for a page that is not live.
func (e *examiner) ask() {
	select {
	case e.asked <- struct{}{}:
	default:
	}
}

// unreached reports whether Redis did not answer the last checks.
func (e *examiner) unreached() bool {
	found, _ := e.troubles()
	return slices.ContainsFunc(found, func(f findingRow) bool { return f.Check == "reachability" })
}

// troubles returns the warnings and errors of the last report; false without a report.
func (e *examiner) troubles() ([]findingRow, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.report == nil {
		return nil, false
	}

	var out []findingRow
	for _, row := range rowsOf(e.report) {
		if row.Level != fine {
			out = append(out, row)
		}
	}

	return out, true
}

func rowsOf(report *doctor.Report) []findingRow {
	var out []findingRow
	for _, f := range report.Findings {
		row := findingRow{Check: f.Check, Node: f.Node, Message: f.Message, Remedy: f.Remedy, Level: fine, Severity: string(f.Severity)}
		switch {
		case f.Fixed:
			row.Severity = fixed
		case f.Severity == doctor.Error:
			row.Level = wrong
		case f.Severity == doctor.Warning:
			row.Level = mind
		}

		out = append(out, row)
	}

	return out
}

type doctorPage struct {
	Findings         []findingRow
	Errors, Warnings int
	At               stamp
	Failed           string
	Reasons          []string
	Ready, Degraded  bool
}

// showDoctor serves the findings of doctor. They concern all of Redis, so only visitors who see all
// notices may read them.
func (p *Pages) showDoctor(w http.ResponseWriter, r *http.Request, v Visitor) error {
	if !v.All() {
		return failure{http.StatusForbidden, say("This page is for clients without a prefix.")}
	}

	report, at, err := p.examiner.get(r.Context(), examinedFresh)
	ready := p.o.Engine.Ready(r.Context())
	page := doctorPage{At: p.stamp(at), Ready: ready.Ready, Degraded: len(ready.Degraded) > 0, Reasons: ready.AllReasons()}
	switch {
	case err != nil:
		page.Failed = err.Error()
	case report != nil:
		page.Findings, page.Errors, page.Warnings = rowsOf(report), report.Errors, report.Warnings
	}

	return p.render(w, r, http.StatusOK, view{Title: say("Doctor"), Visitor: v, Content: doctorContent(page)})
}
