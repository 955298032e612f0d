package cli

import (
	"testing"

	"notifier/internal/notice"
)

// TestProblemsNamesTheRemedy checks the command with a problem and without one.
func TestProblemsNamesTheRemedy(t *testing.T) {
	t.Parallel()
	if out, _ := newTestCLI(t).run(0, "problems"); out != "No problems found\n" {
		t.Errorf("without problems: %s", out)
	}

	d := newTestCLI(t)
	d.run(0, "schedule", "app1:jobs:t:1")
	d.engine.Move("app1:jobs:t:1", notice.Dead, notice.ReasonRejected)
	out, _ := d.run(0, "problems")
	contains(t, out, "SEVERITY", "error", "dead", "jobs: 1 dead letter in the last hour, rejected",
		"notifier redrive --route jobs --reason rejected --rate 100/s")
	out, _ = d.run(0, "problems", "--json", "--route", "jobs")
	contains(t, out, `"kind": "dead"`, `"command": "notifier redrive`)
	d.run(1, "problems", "--route", "none")
	out, _ = d.run(0, "redrive", "--route", "jobs", "--rate", "2/m", "--dry-run")
	contains(t, out, "Dry run: 1 dead letters of route jobs would be redriven, over 30s at 2/m")
	d.run(0, "redrive", "--route", "jobs", "--rate", "2/m")
}
