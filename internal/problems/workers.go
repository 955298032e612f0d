package problems

import (
	"notifier/internal/doctor"
	"notifier/internal/fleet"
	"notifier/internal/store"
)

// listRecorded is a command that shows who handles which recorded prefix.
const listRecorded = "notifier routes recorded"

// unhandled adds the notices of a recorded prefix that no running worker handles, and reports whether there are any.
func (f *finder) unhandled(c store.Counts) bool {
	x, ok := fleet.Unhandled(f.b.Recorded, c.Prefix)
	if c.Pending == 0 || !ok {
		return false
	}

	p := Problem{Kind: Unhandled, Severity: Warning, Route: f.Routes.NameOf(c.Prefix), Prefix: c.Prefix, Count: c.Pending, Since: x.Handled,
		Title:   say("No worker handles `%s`: %s pending notice(s)", c.Prefix, c.Pending),
		Why:     say("Only workers may handle them. Start a program with a handler for the prefix, or release the prefix."),
		Command: listRecorded, Links: []Link{{Path: NoticesPath("route", c.Prefix), Text: say("Notices")}}}
	if c.Overdue > 0 {
		if p.Severity = Error; p.Since.IsZero() {
			p.Since = c.NextDue
		}

		p.Title = say("No worker handles `%s`: %s pending notice(s), the oldest overdue for %s", c.Prefix, c.Pending, LateBy(f.b, c))
	}

	f.add(p)
	return true
}

// disabled adds the configured routes whose prefix is recorded for workers.
func (f *finder) disabled() {
	for _, x := range f.b.Recorded {
		if r := f.Routes.Configured(x.Prefix); r != nil && f.Reader.Owns(r.Prefix) {
			f.add(Problem{Kind: Disabled, Severity: Error, Route: r.Name, Prefix: r.Prefix,
				Title:   say("Route %s delivers nothing: its prefix is recorded for workers", r.Name),
				Why:     say("Remove the route. If no program has a handler for `%s`, release the prefix instead.", r.Prefix),
				Command: listRecorded, Links: []Link{{Path: Root + "routes", Text: say("Routes")}}})
		}
	}
}

// ofWorkers reports whether a finding of doctor is shown by unhandled and disabled.
func ofWorkers(x doctor.Finding) bool { return x.Check == doctor.WorkersCheck }
