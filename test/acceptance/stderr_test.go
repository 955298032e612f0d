package acceptance

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"notifier/client"
)

// logTo is this machine, with a file as standard error.
type logTo struct {
	here
	file *os.File
}

func (l logTo) start(c *exec.Cmd) error {
	c.Stderr = l.file
	return c.Start()
}

// piped starts a service whose standard error is a pipe, and returns its reading end.
func piped(t *testing.T, redisURL string, envs ...[]string) (*service, *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() }) // a test may have closed it
	s := beginAt(t, logTo{file: w}, redisURL, append(envs, []string{"NOTIFIER_LOG_LEVEL=info"}))
	_ = w.Close() // the process has its own
	s.ready()
	return s, r
}

// isStalled reports whether a service is ready, and degraded by its log.
func (s *service) isStalled() bool {
	h, err := s.api.Ready(s.t.Context())
	return err == nil && h.Ready && h.Degraded && strings.Contains(strings.Join(h.Reasons, ";"), "the log is not written")
}

// A reader of the log that stands still stops no delivery, doubles none, and does not delay the end.
func TestLogThatIsNotReadStopsNothing(t *testing.T) {
	t.Parallel()
	const n = 1600 // more lines than fit in the two pipes
	shop := listen(t, nil)
	db := newRedis(t)
	env := append(route("calls", "app1", shop.url), route("lines", "app2", "log")...)
	a, log := piped(t, db.URL(), env)
	b, _ := piped(t, db.URL(), env)
	due := time.Now()
	a.scheduleAll(n, func(i int) string { return line(fmt.Sprintf("app1:m:t:%d", i), due) })
	shop.wait(waitTimeout, n)
	await(t, waitTimeout, "all settled", func() bool { return a.settled("calls") == n })
	shop.once(n)
	await(t, waitTimeout, "ready and degraded", func() bool { return a.isStalled() && b.isStalled() })

	const key = "app2:m:t:1"
	a.scheduleAll(1, func(int) string { return line(key, due) })
	if code, _ := b.stop(waitTimeout); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	if got, err := a.api.Get(t.Context(), key); err != nil || got.State == client.Delivered || got.AttemptsMade != 0 {
		t.Errorf("%v: %s", err, got.JSON)
	}

	text := make(chan []byte)
	go func() {
		all, _ := io.ReadAll(log) // the end of the process
		text <- all
	}()
	await(t, waitTimeout, "the notice of the log", func() bool { return a.settled("lines") == 1 })
	if h, err := a.api.Ready(t.Context()); err != nil || h.Degraded {
		t.Errorf("after the reader: %+v, %v", h, err)
	}
	a.stop(waitTimeout)
	if got := bytes.Count(<-text, []byte(`"msg":"notice","key":"`+key)); got != 1 {
		t.Errorf("%d lines of the notice, want 1", got)
	}
}

// A closed standard error costs lines and nothing else.
func TestClosedStderrCostsLinesOnly(t *testing.T) {
	t.Parallel()
	const n = 50
	shop := listen(t, nil)
	s, log := piped(t, newRedis(t).URL(), route("calls", "app1", shop.url))
	_ = log.Close()
	s.scheduleAll(n, func(i int) string { return line(fmt.Sprintf("app1:m:t:%d", i), time.Now()) })
	shop.wait(waitTimeout, n)
	await(t, waitTimeout, "ready and degraded", s.isStalled)
	if code, _ := s.stop(waitTimeout); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	shop.once(n)
}

// ignoring is this machine, and processes that ignore SIGHUP, as under nohup.
type ignoring struct{ here }

func (ignoring) start(c *exec.Cmd) error {
	c.Path, c.Args = "/bin/sh", append([]string{"sh", "-c", `trap "" HUP; exec "$0" "$@"`}, c.Args...)
	return c.Start()
}

func TestHangUpStopsInOrder(t *testing.T) {
	t.Parallel()
	running, free := make(chan struct{}), make(chan struct{})
	shop := listen(t, func(http.ResponseWriter, *http.Request, hit) { close(running); <-free })
	s := launch(t, newRedis(t).URL(), route("calls", "app1", shop.url), []string{"NOTIFIER_LOG_LEVEL=info"})
	s.scheduleAll(1, func(int) string { return line("app1:m:t:1", time.Now()) })
	<-running
	s.signal(syscall.SIGHUP)
	s.signal(syscall.SIGHUP) // of the terminal and of the shell
	await(t, waitTimeout, "the begin of the stop", func() bool { return !s.healthy() })
	close(free)
	await(t, waitTimeout, "the end", s.ended)
	if code := s.cmd.ProcessState.ExitCode(); code != 0 || !strings.Contains(tail(s.log), `"msg":"stopped"`) {
		t.Errorf("exit code %d:\n%s", code, tail(s.log))
	}
	shop.once(1)
}

func TestHangUpUnderNohupIsIgnored(t *testing.T) {
	t.Parallel()
	shop := listen(t, nil)
	s := beginAt(t, ignoring{}, newRedis(t).URL(), [][]string{route("calls", "app1", shop.url)})
	s.ready()
	s.signal(syscall.SIGHUP)
	s.scheduleAll(1, func(int) string { return line("app1:m:t:1", time.Now()) })
	shop.wait(waitTimeout, 1)
	if code, _ := s.stop(waitTimeout); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
}

// A command whose output is its product ends with exit code 0 when nobody reads it.
func TestClosedOutputEndsCommand(t *testing.T) {
	t.Parallel()
	shop := listen(t, nil)
	s := launch(t, newRedis(t).URL(), route("calls", "app1", shop.url))
	due := time.Now().Add(time.Hour)
	s.scheduleAll(3, func(i int) string { return line(fmt.Sprintf("app1:m:t:%d", i), due) })
	for _, args := range [][]string{{"list"}, {"get", "app1:m:t:1", "--json"}, {"demo", "--keep", "--emulated"}, {"listen"}} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		_ = r.Close()
		errs := &said{}
		cmd := exec.Command(binary, args...)
		cmd.Env, cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = append(environment(nil), "NOTIFIER_URL="+s.url), w, errs, tether()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		_ = w.Close() // the process has its own
		if args[0] == "listen" {
			await(t, waitTimeout, "the tap", func() bool { return strings.Contains(errs.String(), "ready: copies come from") })
			s.scheduleAll(1, func(int) string { return line("app1:m:now:1", time.Now()) })
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s: %v: %s", args[0], err, errs)
		}
	}
}
