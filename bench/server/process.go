package server

import (
	"bufio"
	"cmp"
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
	Addr   string
	cmd    *exec.Cmd
	signal syscall.Signal
	log    string
	done   chan struct{}
	helper *Process // stopped after it; nil = none
}

// Command is a server to start.
type Command struct {
	Name   string // of the log file
	Path   string
	Args   []string
	Env    []string
	Dir    string
	User   string // run as this user if we are root
	Addr   string
	Signal syscall.Signal              // ends it; 0 = SIGTERM
	Ready  func(context.Context) error // succeeds once the server is ready
	// Line is called with each line of its standard error, from one goroutine, and may not
	// keep it; nil = the output goes to the log file.
	Line func(line []byte)
}

// launch starts a server and waits until it is ready.
func launch(ctx context.Context, c Command) (*Process, error) {
	p, err := start(c)
	if err != nil {
		return nil, err
	}
	if err := p.ready(ctx, c.Ready); err != nil {
		return nil, errors.Join(err, p.Stop())
	}

	return p, nil
}

func start(c Command) (*Process, error) {
	logPath := filepath.Join(c.Dir, c.Name+".log")
	log, err := os.Create(logPath)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", c.Name, err)
	}

	defer log.Close()
	cmd := exec.Command(c.Path, c.Args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = c.Dir, log, log
	cmd.Env = append(os.Environ(), c.Env...)
	if c.User != "" && os.Getuid() == 0 {
		cred, err := credential(c.User)
		if err != nil {
			return nil, fmt.Errorf("start %s: %w", c.Name, err)
		}

		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: cred}
	}

	read := func() {}
	if c.Line != nil {
		cmd.Stderr = nil
		out, err := cmd.StderrPipe()
		if err != nil {
			return nil, fmt.Errorf("start %s: %w", c.Name, err)
		}

		read = func() { readLines(out, logPath, c.Line) }
	}

	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", c.Name, err)
	}

	p := &Process{Addr: c.Addr, cmd: cmd, signal: cmp.Or(c.Signal, syscall.SIGTERM), log: logPath, done: make(chan struct{})}
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

// Stop ends the server, and kills it if it does not end in time. Then it stops the server's helper.
func (p *Process) Stop() error {
	if p == nil {
		return nil
	}
	return errors.Join(p.stop(), p.helper.Stop())
}

func (p *Process) stop() error {
	if err := p.cmd.Process.Signal(p.signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
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
