package queue

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"notifier/internal/notice"
)

// Command runs a shell command for each entry, with the body on its standard input and the facts in its environment.
type Command struct {
	Shell   string        // the command line for sh -c
	Environ []string      // NAME=value; the facts of the entry are added
	Timeout time.Duration // 0 = none
	Stdout  io.Writer
	Stderr  io.Writer
}

// exitDefer is the exit code of a command that defers the notice: EX_TEMPFAIL of sysexits.h.
const exitDefer = 75

// killAfter is the longest time between SIGTERM and SIGKILL, and for the output of a command that has ended: its background
// processes may hold the output open.
const killAfter = 5 * time.Second

// Run runs the command once. Exit code 0 means delivered, 75 deferred, any other a retry. A command that this machine cannot
// start for lack of files, processes or memory is deferred.
func (c *Command) Run(ctx context.Context, e *Received) notice.Result {
	if c.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.Timeout)
		defer cancel()
	}

	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", c.Shell)
	cmd.Stdin = bytes.NewReader(e.Body)
	cmd.Env = append(append([]string{}, c.Environ...), e.Variables()...)
	last := &tail{}
	cmd.Stdout, cmd.Stderr = c.Stdout, io.MultiWriter(c.Stderr, last)
	// a separate process group, so that the shell's children end with it
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	if cmd.WaitDelay = killAfter; c.Timeout > 0 { // the report must still arrive in time
		cmd.WaitDelay = min(killAfter, c.Timeout/9)
	}

	err := cmd.Run()
	if ctx.Err() != nil && cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // processes that ignored SIGTERM
	}

	text := last.text()
	res := notice.Result{Outcome: notice.OutcomeRetry, Response: text}
	var exit *exec.ExitError
	switch {
	case err == nil, errors.Is(err, exec.ErrWaitDelay): // exit code 0; a background process still holds the output
		res.Outcome = notice.OutcomeDelivered
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		res.Response = fmt.Sprintf("the command took longer than %s. %s", c.Timeout, text)
	case ctx.Err() != nil:
		res.Outcome, res.Response = notice.OutcomeDeferred, "the consumer was stopped"
	case errors.As(err, &exit) && exit.ExitCode() == exitDefer:
		res.Outcome = notice.OutcomeDeferred
	case errors.As(err, &exit):
		res.Response = fmt.Sprintf("%s. %s", exit, text)
	case lacks(err):
		res.Outcome, res.Response = notice.OutcomeDeferred, "this machine cannot start the command: "+err.Error()
	default:
		res.Response = err.Error()
	}

	res.Response = strings.TrimSuffix(strings.TrimSpace(res.Response), ".")
	return res
}

// lacks reports whether a command was not started because this machine lacks files, processes or memory.
func lacks(err error) bool {
	for _, shortage := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.EAGAIN, syscall.ENOMEM} {
		if errors.Is(err, shortage) {
			return true
		}
	}
	return false
}

// tail keeps the last bytes that are written to it.
type tail struct{ b []byte }

const kept = 400

func (t *tail) Write(p []byte) (int, error) {
	t.b = append(t.b, p...)
	if over := len(t.b) - kept; over > 0 {
		t.b = append(t.b[:0], t.b[over:]...)
	}

	return len(p), nil
}

func (t *tail) text() string { return strings.ToValidUTF8(strings.TrimSpace(string(t.b)), "") }
