package queue

import (
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"notifier/internal/notice"
)

// A command that was not started for lack of files is deferred. The limit would also affect other tests of this process, so
// the test runs itself in a process of its own.
func TestCommandThatCannotStartIsDeferred(t *testing.T) {
	t.Parallel()
	const few = "CONSUME_TEST_FEW_FILES"
	if os.Getenv(few) == "" {
		again := exec.Command(os.Args[0], "-test.run=^TestCommandThatCannotStartIsDeferred$", "-test.v")
		again.Env = append(os.Environ(), few+"=1")
		if out, err := again.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS") {
			t.Errorf("%v: %s", err, out)
		}
		return
	}

	c := &Command{Shell: "exit 3", Stdout: io.Discard, Stderr: io.Discard}
	if got := c.Run(t.Context(), &Received{}); got.Outcome != notice.OutcomeRetry {
		t.Fatalf("with files: %+v", got)
	}
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	none := was
	none.Cur = 3 // standard input, output and error
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &none); err != nil {
		t.Fatal(err)
	}
	got := c.Run(t.Context(), &Received{})
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	if got.Outcome != notice.OutcomeDeferred || !strings.Contains(got.Response, "too many open files") {
		t.Errorf("without files: %+v", got)
	}
}
