package cli

import (
	"slices"
	"strings"
	"testing"
)

func TestRoutesReleaseEndsTheRecordOfAPrefix(t *testing.T) {
	t.Parallel()
	d := newTestCLI(t)
	if out, _ := d.run(0, "routes", "recorded"); out != "No prefix is recorded for workers\n" {
		t.Errorf("printed %q", out)
	}

	d.engine.Record("app1:jobs:batch", 2)
	d.engine.Record("app1:jobs:check", 0)
	d.engine.Record("app3", 0)
	d.run(0, "schedule", "app1:jobs:check:1", "--delay", "1h")
	out, _ := d.run(0, "routes", "recorded")
	for i, want := range []string{"PREFIX HANDLED BY LAST REPORT PENDING OVERDUE NEXT DUE", "app1:jobs:batch 2 workers - 0 0 -",
		"app1:jobs:check nobody - 1 0", "app3 nobody - 0 0 -"} {
		lines := strings.Split(out, "\n")
		if i >= len(lines) || !strings.HasPrefix(strings.Join(strings.Fields(lines[i]), " "), want) {
			t.Errorf("line %d of %q is not %q", i, out, want)
		}
	}

	out, _ = d.run(0, "stats")
	contains(t, out, "app1:jobs:check (workers)")
	if got := d.complete("routes", "release", "app1"); !slices.Equal(got, []string{"app1:jobs:batch", "app1:jobs:check"}) {
		t.Errorf("offers %v", got)
	}

	_, errs := d.run(1, "routes", "release", "app1:jobs:batch")
	contains(t, errs, "409", "a running worker handles the prefix; stop it first, or wait 15 s")
	_, errs = d.run(1, "routes", "release", "app1:none")
	contains(t, errs, "404", "GET /v1/routes lists the recorded ones")
	d.run(2, "routes", "release")
	out, _ = d.run(0, "routes", "release", "app1:jobs:check")
	contains(t, out, "app1:jobs:check is released; its notices go to route jobs\n")
	out, _ = d.run(0, "routes", "release", "app3")
	contains(t, out, "app3 is released; no route matches it")
	out, _ = d.run(0, "routes", "recorded", "--json")
	contains(t, out, `"workers": 2`)
}
