package cli

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"notifier/internal/jobs"
)

func TestCancelOfManyIsAJob(t *testing.T) {
	t.Parallel()
	d := newTestCLI(t)
	for i := range 3 {
		d.run(0, "schedule", fmt.Sprint("app1:orders:t:", i), "--delay", "1h", "--to", "https://shop.example/hook")
	}
	out, _ := d.run(0, "cancel", "--prefix", "app1:orders", "--host", "shop.example", "--dry-run")
	contains(t, out, "Dry run: cancel would change 3 notices at 100/s\n")
	d.stdin = "n\n"
	_, errs := d.run(2, "cancel", "--prefix", "app1:orders")
	contains(t, errs, "cancel 3 notices at 100/s? [y/N]", "nothing was changed")
	d.stdin = "yes\n"
	out, _ = d.run(0, "cancel", "--prefix", "app1:orders", "--host", "shop.example", "--rate", "1000/s")
	contains(t, out, ": cancel done, 3 changed\n")
	id, _, _ := strings.Cut(out, ":")
	out, _ = d.run(0, "jobs")
	contains(t, out, id, "cancel", "app1:orders", "shop.example")
	out, _ = d.run(0, "jobs", id, "--json")
	contains(t, out, `"state": "done"`)
	d.run(1, "jobs", id, "--stop")
	out, _ = d.run(0, "get", "app1:orders:t:1")
	contains(t, out, "cancelled")
	out, _ = d.run(0, "redrive", "--route", "orders", "--job")
	contains(t, out, ": redrive done, 0 changed")
	out, _ = d.run(0, "purge", "--route", "orders", "--job", "--dry-run")
	contains(t, out, "Dry run: purge would change 0 notices")

	stopped := &jobs.Job{ID: "job_stopped", Kind: jobs.KindCancel, State: jobs.Stopped, Rule: jobs.Rule{Prefix: "app1:none"}, Made: time.Now(),
		Changed: time.Now()}
	if err := (jobs.Store{Store: d.engine.Store()}).Add(t.Context(), stopped, jobs.MaxJobs); err != nil {
		t.Fatal(err)
	}
	out, _ = d.run(0, "jobs", "job_stopped")
	contains(t, out, "notifier jobs job_stopped --resume continues it")
	out, _ = d.run(0, "jobs", "job_stopped", "--resume")
	contains(t, out, "job_stopped: cancel running")

	for _, bad := range [][]string{{"cancel"}, {"cancel", "--host", "x"}, {"cancel", "app1:orders:t:1", "--prefix", "app1"},
		{"cancel", "app1:orders:t:1", "--yes"}, {"cancel", "--prefix", "app1", "--rate", "fast", "--yes"}, {"jobs", "--stop"}} {
		d.run(2, bad...)
	}

	_, errs = d.run(2, "jobs", "job_stopped", "--stop", "--resume")
	contains(t, errs, "--stop and --resume exclude each other: want --stop or --resume, only one of them")
}
