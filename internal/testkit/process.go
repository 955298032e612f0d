package testkit

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process is a redis-server that runs on this machine.
type process struct {
	path  string
	args  []string
	env   []string // in addition to the test's environment
	port  int
	log   string
	cmd   *exec.Cmd // nil while it does not run
	guard *guard
}

// EnvServer is the variable with the path of the program to start instead of the redis-server on PATH:
// another version, or a Valkey.
const EnvServer = "NOTIFIER_TEST_REDIS_SERVER"

// Program returns the path of the redis-server that tests start.
func Program() (string, error) {
	path, err := exec.LookPath(cmp.Or(os.Getenv(EnvServer), "redis-server"))
	if err != nil {
		return "", fmt.Errorf("find a redis-server: %w", err)
	}

	return path, nil
}

// newProcess starts a redis-server with its files in dir.
func newProcess(dir string, s *settings) (*process, error) {
	path, err := Program()
	if err != nil {
		return nil, err
	}

	p := &process{path: path, env: s.env, log: filepath.Join(dir, "redis.log")}
	// Another process may take the port between the check and the start. Then another port is tried.
	for range 5 {
		if p.port, err = FreePort(); err != nil {
			return nil, err
		}

		p.args = arguments(s, "--port", strconv.Itoa(p.port), "--bind", "127.0.0.1", "--dir", dataDir(s, dir))
		if err = p.start(); err == nil {
			return p, nil
		}
	}

	return nil, err
}

// arguments returns the defaults followed by the test's settings.
func arguments(s *settings, first ...string) []string {
	if len(s.files) > 0 {
		return append(append([]string{s.files[0]}, first...), "--aclfile", s.files[1])
	}

	args := append(first, "--save", "", "--appendonly", "no")
	if s.aof {
		args = append(args, "--appendonly", "yes", "--appendfsync", "always")
	}

	for _, line := range s.lines {
		words := splitLine(line)
		if len(words) > 0 {
			args = append(append(args, "--"+words[0]), words[1:]...)
		}
	}

	return args
}

func dataDir(s *settings, otherwise string) string {
	if s.aofDir != "" {
		return s.aofDir
	}
	return otherwise
}

// splitLine splits a line of redis.conf at blanks. Double quotes enclose a word that may be empty or contain
// blanks.
func splitLine(line string) []string {
	var words []string
	var word strings.Builder
	quoted, begun := false, false

	for _, r := range line {
		switch {
		case r == '"':
			quoted, begun = !quoted, true
		case (r == ' ' || r == '\t') && !quoted:
			if begun {
				words = append(words, word.String())
			}

			word.Reset()
			begun = false
		default:
			word.WriteRune(r)
			begun = true
		}
	}

	if begun {
		words = append(words, word.String())
	}

	return words
}

func (p *process) address() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(p.port)) }

func (p *process) start() error {
	if p.cmd != nil {
		return nil
	}

	out, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open the server's log: %w", err)
	}

	defer func() { _ = out.Close() }()

	cmd := exec.Command(p.path, p.args...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Env = append(os.Environ(), p.env...)
	// A separate process group, so that child processes that write files end with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", p.path, err)
	}

	p.cmd = cmd
	if p.guard, err = newGuard("kill -9 -" + strconv.Itoa(cmd.Process.Pid)); err != nil {
		p.remove()
		return err
	}

	return p.listening()
}

// listening waits until the port accepts connections, or the process has ended.
func (p *process) listening() error {
	deadline := time.Now().Add(30 * time.Second)
	for time.Now().Before(deadline) {
		var st syscall.WaitStatus
		pid, err := syscall.Wait4(p.cmd.Process.Pid, &st, syscall.WNOHANG, nil)
		if err == nil && pid == p.cmd.Process.Pid {
			p.guard.release()
			p.cmd, p.guard = nil, nil
			return fmt.Errorf("%s ended with %d:\n%s", p.path, st.ExitStatus(), p.logs())
		}

		conn, err := net.DialTimeout("tcp", p.address(), time.Second)
		if err == nil {
			return conn.Close()
		}

		pause()
	}

	p.remove()
	return fmt.Errorf("%s did not listen on %s within 30s:\n%s", p.path, p.address(), p.logs())
}

func (p *process) kill() error {
	if p.cmd == nil {
		return nil
	}

	p.guard.release()
	group := -p.cmd.Process.Pid
	err := syscall.Kill(group, syscall.SIGKILL)
	if errors.Is(err, syscall.ESRCH) {
		err = nil
	}

	_ = p.cmd.Wait() // the error is the signal
	// A save that it had forked has lost its parent, and may write until it has ended.
	for end := time.Now().Add(time.Second); syscall.Kill(group, 0) == nil && time.Now().Before(end); {
		pause()
	}

	p.cmd, p.guard = nil, nil
	return err
}

func (p *process) pause() error   { return p.signal(syscall.SIGSTOP) }
func (p *process) unpause() error { return p.signal(syscall.SIGCONT) }

func (p *process) signal(sig syscall.Signal) error {
	if p.cmd == nil {
		return errors.New("the server does not run")
	}
	return p.cmd.Process.Signal(sig)
}

func (p *process) remove() { _ = p.kill() }

func (p *process) logs() string {
	b, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}

	const last = 4000
	return string(b[max(0, len(b)-last):])
}

// guard is a shell that waits for the end of its input and then runs a command. Only this process holds the
// other end of the pipe, so the command runs even if the test binary is killed.
type guard struct {
	cmd  *exec.Cmd
	pipe *os.File
}

func newGuard(command string) (*guard, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make a pipe: %w", err)
	}

	defer func() { _ = r.Close() }()

	cmd := exec.Command("/bin/sh", "-c", "read -r line; [ \"$line\" = keep ] || "+command)
	cmd.Stdin = r
	// A separate process group: an interrupt from the terminal must not end it before its command has run.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		_ = w.Close()
		return nil, fmt.Errorf("start the guard: %w", err)
	}

	return &guard{cmd: cmd, pipe: w}, nil
}

// release ends the guard without running its command.
func (g *guard) release() {
	if g == nil {
		return
	}

	_, _ = g.pipe.WriteString("keep\n")
	_ = g.pipe.Close()
	_ = g.cmd.Wait()
}
