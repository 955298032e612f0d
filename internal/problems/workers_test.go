package problems_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"notifier/internal/auth"
	"notifier/internal/doctor"
	"notifier/internal/fleet"
	"notifier/internal/problems"
	"notifier/internal/store"
)

func TestFindNamesRecordedPrefixesWithoutWorkers(t *testing.T) {
	t.Parallel()
	routes := table(t)
	routes.SetRecorded([]string{"app1:batch", "app1:check", "app1:idle", "app1:member", "app1:sync", "app3"})
	late := now.Add(-time.Minute)
	b := &problems.Board{At: now, CountsAt: now, Counts: []store.Counts{{Prefix: "app1:batch", Pending: 5, Overdue: 2, NextDue: late},
		{Prefix: "app1:check", Pending: 1, NextDue: now.Add(time.Hour)}, {Prefix: "app1:idle"}, {Prefix: "app1:member"},
		{Prefix: "app1:sync", Pending: 3, Overdue: 3, NextDue: late}, {Prefix: "app3", Pending: 4}},
		Recorded: []fleet.Recorded{{Prefix: "app1:batch", Handled: late.Add(-time.Minute)}, {Prefix: "app1:check"},
			{Prefix: "app1:idle"}, {Prefix: "app1:member"}, {Prefix: "app1:sync", Workers: 2}, {Prefix: "app3"}}}
	for prefix, want := range map[string][]string{
		"app1": {"error unhandled app1:batch 5: No worker handles app1:batch: 5 pending notices, the oldest overdue for 1m",
			"error overdue app1:sync 3: app1:sync is late: 3 notices waiting, the oldest for 1m",
			"error disabled member 0: Route member delivers nothing: its prefix is recorded for workers",
			"warning unhandled app1:check 1: No worker handles app1:check: 1 pending notice"},
		"app2": nil,
	} {
		var got []string
		for _, p := range problems.Find(problems.Options{Board: b, Routes: routes, Reader: auth.Caller{Prefix: prefix},
			Findings: []doctor.Finding{{Check: doctor.WorkersCheck, Severity: doctor.Error, Message: "no running worker handles prefix app1:batch"}},
			Explain:  func(err error) problems.Text { return problems.Plain(err.Error()) }}) {
			got = append(got, fmt.Sprintf("%s %s %s %d: %s", p.Severity, p.Kind, p.Route, p.Count, p.Title))
			if want := map[string]time.Time{"app1:batch": late.Add(-time.Minute), "app1:check": {}}; p.Kind == problems.Unhandled &&
				!p.Since.Equal(want[p.Prefix]) {
				t.Errorf("%s is not handled since %s, want %s", p.Prefix, p.Since, want[p.Prefix])
			}

			if !slices.Contains(problems.Kinds, p.Kind) {
				t.Errorf("an unlisted kind: %s", p.Kind)
			}
		}

		if !slices.Equal(got, want) {
			t.Errorf("%s: got\n%s\nwant\n%s", prefix, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}

	finding := doctor.Finding{Check: doctor.WorkersCheck, Severity: doctor.Error, Message: "no running worker handles prefix app1:batch"}
	for _, p := range find(t, b, auth.Local(), finding) {
		if p.Kind == problems.Setup {
			t.Errorf("a finding on workers is shown as a problem of Redis: %s", p.Quoted)
		}
	}
}
