package ui

import (
	"net/http"

	"notifier/internal/doctor"
	"notifier/internal/problems"
)

// findingRow is a finding of doctor.
type findingRow struct {
	Check, Node, Message, Remedy string
	Level                        level
	Severity                     string
}

// troubles returns the warnings and errors of the last checks; false without checks.
func (p *Pages) troubles() ([]findingRow, bool) {
	found, examined := p.sampler.Examiner.Troubles()
	return rowsOf(found), examined
}

func rowsOf(found []doctor.Finding) []findingRow {
	var out []findingRow
	for _, f := range found {
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

	report, at, err := p.sampler.Examiner.Get(r.Context(), problems.ExaminedFresh)
	ready := p.o.Engine.Ready(r.Context())
	page := doctorPage{At: p.stamp(at), Ready: ready.Ready, Degraded: len(ready.Degraded) > 0, Reasons: ready.AllReasons()}
	switch {
	case err != nil:
		page.Failed = err.Error()
	case report != nil:
		page.Findings, page.Errors, page.Warnings = rowsOf(report.Findings), report.Errors, report.Warnings
	}

	return p.render(w, r, http.StatusOK, view{Title: say("Doctor"), Visitor: v, Content: doctorContent(page)})
}
