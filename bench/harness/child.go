package harness

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"

	"notifier/bench/peer"
)

// WorkSpec is the configuration of a worker process.
type WorkSpec struct {
	Peer string
	Env  peer.Env
	URL  string // address of jobs without a URL, in the callback cases
}

// Processes are the kinds of processes that run a cell or that a cell starts: the cell itself, a worker of the crash case, a
// worker of the callback cases, and the bare client loop.
var Processes = []string{"cell", "work", "call", "bare"}

// Process is the body of a process of the given kind. A worker ends when in is closed.
func Process(ctx context.Context, kind string, task []byte, entry func(name string) (peer.Entry, error), in io.Reader,
	out io.Writer) error {
	var (
		cell Spec
		work WorkSpec
		loop BareSpec
	)
	if err := json.Unmarshal(task, map[string]any{"cell": &cell, "work": &work, "call": &work, "bare": &loop}[kind]); err != nil {
		return fmt.Errorf("read the task of a process %q: %w", kind, err)
	}

	if kind == "bare" {
		rate, err := Bare(ctx, loop)
		return answer(out, rate, err)
	}

	e, err := entry(cmp.Or(cell.Peer, work.Peer))
	if err != nil {
		return err
	}

	switch kind {
	case "cell":
		v, err := Measure(ctx, cell, e)
		return answer(out, v, err)
	case "work":
		return Work(ctx, work, e, in, out)
	default:
		return Call(ctx, work, e, in, out)
	}
}

// selfCommand is a process of the given kind. Its messages go where this process's go.
func selfCommand(ctx context.Context, self, kind string, task any) (*exec.Cmd, error) {
	spec, err := json.Marshal(task)
	if err != nil {
		return nil, err
	}

	cmd := exec.CommandContext(ctx, self, kind, string(spec))
	cmd.Stderr = os.Stderr
	return cmd, nil
}

func answer(out io.Writer, v any, err error) error {
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(v)
}

// child is the process of a peer's worker.
type child struct {
	cmd *exec.Cmd
	in  io.Closer
	out io.Reader
}

// startChild starts a worker of the given kind on the peer's server.
func startChild(ctx context.Context, b *Bench, kind, url string) (*child, error) {
	dir, err := os.MkdirTemp(b.Env.Dir, kind)
	if err != nil {
		return nil, fmt.Errorf("make a scratch directory: %w", err)
	}

	env := b.Env
	env.Dir, env.Attach = dir, b.Peer.Addr()
	c := &child{}
	if c.cmd, err = selfCommand(ctx, b.Self, kind, WorkSpec{Peer: b.Info.Name, Env: env, URL: url}); err != nil {
		return nil, err
	}
	if c.out, err = c.cmd.StdoutPipe(); err != nil {
		return nil, err
	}
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start a worker: %w", err)
	}

	return c, nil
}
