package cli

import (
	"strings"
	"testing"

	"notifier/internal/notice"
)

// While a node of Redis is unavailable, a line on standard error names it, and the output stays a list.
func TestReadingCommandsReportMissingNodes(t *testing.T) {
	t.Parallel()
	d := newTestCLI(t)
	const key = "app1:jobs:t:1"
	d.run(0, "schedule", key, "--delay", "1h")
	d.engine.Move(key, notice.Dead, notice.ReasonTimeout)
	d.engine.Miss("10.0.0.3:6379")
	for _, args := range [][]string{{"list"}, {"list", "--json"}, {"list", "--all", "--json"}, {"stats"}, {"stats", "--json"},
		{"redrive", "--route", "jobs", "--dry-run"},
		{"redrive", "--route", "jobs", "--json"}} {
		out, errs := d.run(0, args...)
		contains(t, errs, "incomplete: the notices on the Redis at 10.0.0.3:6379 are missing, because it does not answer")
		if strings.Count(errs, "incomplete") != 1 || strings.Contains(out, "incomplete") {
			t.Errorf("%v: %s%s", args, out, errs)
		}
	}
	d.engine.Miss()
	if _, errs := d.run(0, "stats"); errs != "" {
		t.Error(errs)
	}
}
