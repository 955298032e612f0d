package cli

import "testing"

func TestRescheduleChangesAddress(t *testing.T) {
	t.Parallel()
	d := newTestCLI(t)
	const key, job = "app1:orders:t:1", "app1:jobs:t:1"
	d.run(0, "schedule", key, "--delay", "1h", "--to", "https://old.example/a?secret=1")
	d.run(0, "schedule", job, "--delay", "1h")
	_, errs := d.run(2, "reschedule", job, "--url", "https://new.example/")
	contains(t, errs, "422", "the target of route jobs is list")
	out, _ := d.run(0, "reschedule", key, "--url", "https://new.example/", "--header", "x-a=1")
	contains(t, out, key+": changed, due")
	out, _ = d.run(0, "get", key)
	contains(t, out, "https://new.example/", "https://old.example/a\n")
	for _, bad := range [][]string{{}, {"--url", ""}, {"--header", "x"}, {"--keep-headers"},
		{"--url", "https://a.example/", "--keep-headers", "--header", "a=b"}} {
		d.run(2, append([]string{"reschedule", key}, bad...)...)
	}
}
