package cli

import (
	"bufio"
	"context"
	"io"
	"strings"
	"testing"
)

func TestAuditCommand(t *testing.T) {
	t.Parallel()
	d := newTestCLI(t)
	out, _ := d.run(0, "audit")
	contains(t, out, "WHEN", "DETAIL")
	d.run(0, "schedule", "app1:jobs:t:1", "--delay", "1h")
	d.run(0, "cancel", "app1:jobs:t:1")
	d.run(0, "pause", "jobs")
	out, _ = d.run(0, "audit")
	contains(t, out, "  a    127.0.0.1  api  pause   route jobs, app1:jobs  done", "cancel  app1:jobs:t:1", "it was scheduled")
	if strings.Index(out, "pause") > strings.Index(out, "cancel") {
		t.Errorf("the newest is not the first:\n%s", out)
	}
	out, errs := d.run(0, "audit", "--limit", "1")
	if strings.Contains(out, "cancel") {
		t.Errorf("more than was asked for:\n%s", out)
	}
	contains(t, errs, "--cursor ")
	out, _ = d.run(0, "audit", "--limit", "1", "--cursor", strings.Fields(errs[strings.Index(errs, "--cursor"):])[1])
	contains(t, out, "cancel")
	out, _ = d.run(0, "audit", "--prefix", "app1:jobs:t:1", "--since", "1h", "--json")
	contains(t, out, `"items"`, `"action": "cancel"`)
	if strings.Contains(out, "pause") {
		t.Errorf("not narrowed:\n%s", out)
	}
	for _, wrong := range [][]string{{"more"}, {"--follow", "--until", "1h"}, {"--follow", "--cursor", "x"}, {"--limit", "many"}} {
		d.run(2, append([]string{"audit"}, wrong...)...)
	}
}

// --follow prints each new entry once, oldest first.
func TestAuditFollows(t *testing.T) {
	t.Parallel()
	d := newTestCLI(t)
	d.run(0, "pause", "jobs")
	for _, args := range [][]string{{"audit", "--follow", "--json"}, {"audit", "--follow"}} {
		ctx, cancel := context.WithCancel(t.Context())
		r, w := io.Pipe()
		done := make(chan int, 1)
		go func() {
			code := Main(ctx, Process{Args: args, Environ: d.env, Stdin: strings.NewReader(""), Stdout: w, Stderr: io.Discard, Version: "1"}, d.deps)
			_ = w.Close()
			done <- code
		}()
		lines := bufio.NewScanner(r)
		next := func(want string) {
			t.Helper()
			for lines.Scan() {
				if strings.Contains(lines.Text(), "WHEN") || strings.Contains(lines.Text(), "orders") {
					continue // the head, and what the loop's turn before has left
				}
				if !strings.Contains(lines.Text(), want) {
					t.Errorf("%s, want %s", lines.Text(), want)
				}
				return
			}
			t.Errorf("ended before %s", want)
		}
		next("pause")
		d.run(0, "resume", "orders")
		d.run(0, "resume", "jobs")
		next("resume")
		cancel()
		go func() { _, _ = io.Copy(io.Discard, r) }() // the remaining output
		if code := <-done; code != 0 {
			t.Errorf("exits with %d", code)
		}
		d.engine.ForgetAudit()
		d.run(0, "pause", "jobs")
	}
}
