package server

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// stopTimeout is how long a server gets to end by itself.
const stopTimeout = 10 * time.Second

// startTimeout is how long a server gets to answer; RabbitMQ on a busy machine
// is the slowest.
const startTimeout = 60 * time.Second

// Process is a running server.
type Process struct {
	Addr string
	cmd  *exec.Cmd
	log  string
	done chan struct{}
}

// command is what start needs to know.
type command struct {
	name string // of the log file
	path string
	args []string
	env  []string
	dir  string
	user string // run as this user if we are root
	addr string
	line func(line []byte) // gets each line of standard error; nil = they go to the log file
}

// launch starts a server and waits until ask succeeds.
func launch(ctx context.Context, c command, ask func(context.Context) error) (*Process, error) {
	p, err := start(c)
	if err != nil {
		return nil, err
	}
	if err := p.ready(ctx, ask); err != nil {
		return nil, errors.Join(err, p.Stop())
	}

	return p, nil
}

func start(c command) (*Process, error) {
	logPath := filepath.Join(c.dir, c.name+".log")
	log, err := os.Create(logPath)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", c.name, err)
	}

	defer log.Close()
	cmd := exec.Command(c.path, c.args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = c.dir, log, log
	cmd.Env = append(os.Environ(), c.env...)
	if c.user != "" && os.Getuid() == 0 {
		cred, err := credential(c.user)
		if err != nil {
			return nil, fmt.Errorf("start %s: %w", c.name, err)
		}

		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: cred}
	}

	read := func() {}
	if c.line != nil {
		cmd.Stderr = nil
		out, err := cmd.StderrPipe()
		if err != nil {
			return nil, fmt.Errorf("start %s: %w", c.name, err)
		}

		read = func() { readLines(out, logPath, c.line) }
	}

	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", c.name, err)
	}

	p := &Process{Addr: c.addr, cmd: cmd, log: logPath, done: make(chan struct{})}
	go func() {
		read()         // before Wait, which closes the pipe
		_ = cmd.Wait() // the log has the reason of its end
		close(p.done)
	}()
	return p, nil
}

// logBegin is the number of bytes at the start of a server's output that are kept when its lines
// are read. They contain the reason of a failed start.
const logBegin = 4096

// readLines calls line with each line, and keeps the first ones.
func readLines(from io.Reader, logPath string, line func([]byte)) {
	log, err := os.OpenFile(logPath, os.O_WRONLY|os.O_APPEND, 0)
	if err == nil {
		defer log.Close()
	}

	lines := bufio.NewScanner(from)
	lines.Buffer(make([]byte, 256<<10), 256<<10)
	for kept := 0; lines.Scan(); line(lines.Bytes()) {
		if kept < logBegin && err == nil {
			n, _ := fmt.Fprintln(log, lines.Text()) // without it an error says less
			kept += n
		}
	}
}

// ready waits until ask succeeds.
func (p *Process) ready(ctx context.Context, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		err := ask(ctx)
		if err == nil {
			return nil
		}

		select {
		case <-p.done:
			return fmt.Errorf("%s ended at its start: %s", filepath.Base(p.cmd.Path), tail(p.log))
		case <-ctx.Done():
			return fmt.Errorf("%s did not answer within %s: %w: %s", filepath.Base(p.cmd.Path), startTimeout, err, tail(p.log))
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// PID is the server's process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Stop ends the server: asked first, killed if it does not listen.
func (p *Process) Stop() error {
	if p == nil {
		return nil
	}
	return p.stop(syscall.SIGTERM)
}

func (p *Process) stop(sig syscall.Signal) error {
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop %s: %w", filepath.Base(p.cmd.Path), err)
	}

	select {
	case <-p.done:
		return nil
	case <-time.After(stopTimeout):
	}

	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill %s: %w", filepath.Base(p.cmd.Path), err)
	}

	<-p.done
	return nil
}

func tail(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}

	if len(b) > 600 {
		b = b[len(b)-600:]
	}

	return strings.TrimSpace(string(b))
}

// dialable reports whether something accepts connections at addr.
func dialable(addr string) func(context.Context) error {
	return func(ctx context.Context) error {
		conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", addr)
		if err != nil {
			return err
		}

		return conn.Close()
	}
}

// FreeAddr is a loopback address with a port that was free a moment ago.
func FreeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}

	defer l.Close()
	return l.Addr().String(), nil
}

func port(addr string) string { return addr[strings.LastIndexByte(addr, ':')+1:] }

func credential(name string) (*syscall.Credential, error) {
	u, err := user.Lookup(name)
	if err != nil {
		return nil, fmt.Errorf("this server refuses to run as root: %w", err)
	}

	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, err
	}

	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, err
	}

	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}
