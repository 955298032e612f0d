package cli

import (
	"strings"
	"testing"
	"time"

	"notifier/internal/jobs"
)

func TestRedirectCommand(t *testing.T) {
	t.Parallel()
	d := newTestCLI(t)
	const key = "app1:orders:t:1"
	d.run(0, "schedule", key, "--delay", "1h", "--to", "https://old.example/hooks/1?secret=1")
	out, _ := d.run(0, "redirect", "https://old.example/hooks", "https://new.example/in", "--dry-run")
	contains(t, out, "found 1 notice; without --dry-run 1 of them would be redirected\n")
	out, _ = d.run(0, "redirect", "https://new.example", "--host", "old.example")
	contains(t, out, "done, 1 redirected, 0 in flight")
	id, _, _ := strings.Cut(out, ":")
	out, _ = d.run(0, "redirect")
	contains(t, out, id, "old.example", "https://new.example")
	out, _ = d.run(0, "redirect", id, "--json")
	contains(t, out, `"state": "done"`)
	d.run(1, "redirect", id, "--stop")
	out, _ = d.run(0, "get", key)
	contains(t, out, "https://new.example/hooks/1?secret=1", "https://old.example/hooks/1\n")

	stopped := &jobs.Job{ID: "rdr_stopped", State: jobs.Stopped, Made: time.Now(), Changed: time.Now(),
		Rule: jobs.Rule{From: "https://a.example", To: "https://b.example"}}
	if err := (jobs.Store{Store: d.engine.Store()}).Add(t.Context(), stopped, jobs.MaxJobs); err != nil {
		t.Fatal(err)
	}
	out, _ = d.run(0, "redirect", "rdr_stopped")
	contains(t, out, "notifier redirect rdr_stopped --resume continues it")
	out, _ = d.run(0, "redirect", "rdr_stopped", "--resume")
	contains(t, out, "rdr_stopped: running")

	for _, bad := range [][]string{{"a", "b", "c"}, {"--stop"}, {"--dry-run"}, {"rdr_x", "--dry-run"}, {"a", "b", "--stop"},
		{"https://a.example", "https://a.example/"}} {
		d.run(2, append([]string{"redirect"}, bad...)...)
	}
}
