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

// CallSpec is the configuration of a worker process.
type CallSpec struct {
	Peer string
	Env  peer.Env
	URL  string // address of jobs without a URL
}

// Processes are the kinds of processes that run a cell or that a cell starts: the cell itself, a worker whose jobs are
// calls, and the bare client loop.
var Processes = []string{"cell", "call", "bare"}

// Process is the body of a process of the given kind. A worker ends when in is closed.
func Process(ctx context.Context, kind string, task []byte, entry func(name string) (peer.Entry, error), in io.Reader,
	out io.Writer) error {
	var (
		cell Spec
		call CallSpec
		loop BareSpec
	)
	if err := json.Unmarshal(task, map[string]any{"cell": &cell, "call": &call, "bare": &loop}[kind]); err != nil {
		return fmt.Errorf("read the task of a process %q: %w", kind, err)
	}

	if kind == "bare" {
		rate, err := Bare(ctx, loop)
		return answer(out, rate, err)
	}

	e, err := entry(cmp.Or(cell.Peer, call.Peer))
	if err != nil {
		return err
	}
	if kind == "call" {
		return Call(ctx, call, e, in, out)
	}

	v, err := Measure(ctx, cell, e)
	return answer(out, v, err)
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
