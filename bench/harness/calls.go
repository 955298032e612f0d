package harness

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os/exec"
	"time"

	"notifier/bench/peer"
	"notifier/bench/server"
)

// callReady is written by the process after its worker is ready.
const callReady = "ready"

// callTimeout is this project's own for an attempt.
const callTimeout = 10 * time.Second

// newClient returns the client of all handlers. Its one transport keeps as many connections as there are
// handlers.
func newClient(handlers int, timeout time.Duration) *http.Client {
	return &http.Client{Timeout: timeout, Transport: &http.Transport{MaxIdleConnsPerHost: handlers, DisableCompression: true}}
}

// post delivers a job. An answer other than 2xx is an error.
func post(ctx context.Context, client *http.Client, url string, j peer.Job) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(j.Body))
	if err != nil {
		return err
	}

	req.Header.Set("Content-Type", "application/json")
	req.Header.Set(server.KeyHeader, j.ID)
	resp, err := client.Do(req)
	if err != nil {
		return err
	}

	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return err
	}
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("%s answered %s", url, resp.Status)
	}

	return nil
}

// Call is the body of a worker's process. It attaches to a running server and delivers due jobs, until in is
// closed.
func Call(ctx context.Context, spec CallSpec, entry peer.Entry, in io.Reader, out io.Writer) (err error) {
	p := entry.New()
	defer func() { err = errors.Join(err, p.Stop()) }()
	if err := p.Start(ctx, spec.Env); err != nil {
		return fmt.Errorf("attach: %w", err)
	}

	client := newClient(spec.Env.Handlers, callTimeout)
	defer client.CloseIdleConnections()
	err = p.Work(ctx, spec.Env.Handlers, func(ctx context.Context, j peer.Job) error {
		err := post(ctx, client, cmp.Or(j.URL, spec.URL), j)
		if err != nil {
			slog.Warn("a call failed", "id", j.ID, "error", err) // the job is missing, or retried
		}

		return err
	})
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(out, callReady); err != nil {
		return err
	}

	_, err = io.Copy(io.Discard, in)
	return err
}

// child is the process of a peer's worker.
type child struct {
	cmd *exec.Cmd
	in  io.Closer
}

// startCalling starts the process of a worker on the peer's server, and waits until it is ready. A peer that delivers by
// itself has none.
func startCalling(ctx context.Context, b *Bench, url string) *child {
	if overHTTP(b.Info) {
		return nil
	}

	env := b.Env
	env.Dir, env.Attach = b.dir("call"), b.Peer.Addr()
	cmd := must(selfCommand(ctx, b.Self, "call", CallSpec{Peer: b.Info.Name, Env: env, URL: url}))
	out := must(cmd.StdoutPipe())
	c := &child{cmd, must(cmd.StdinPipe())}
	check(cmd.Start())
	b.cleanup(func() error { c.stop(); return nil })
	if line, err := bufio.NewReader(out).ReadString('\n'); line != callReady+"\n" {
		check(errors.Join(fmt.Errorf("the worker said %q at its start", line), err))
	}

	b.worker = cmd.Process.Pid
	return c
}

// stop lets the worker end, and kills it after a while. Its unfinished jobs have been counted. It may have ended already.
func (c *child) stop() {
	if c == nil {
		return
	}

	kill := time.AfterFunc(10*time.Second, func() { _ = c.cmd.Process.Kill() })
	defer kill.Stop()
	_ = c.in.Close()
	_ = c.cmd.Wait() // its exit status is not measured; its messages are on stderr
}

// kill ends the worker with SIGKILL.
func (c *child) kill() {
	_ = c.cmd.Process.Kill()
	_ = c.cmd.Wait() // the error is "signal: killed"
}
