package harness

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"notifier/bench/peer"
)

// Spec is the input of the process of one cell.
type Spec struct {
	Peer string
	Case string
	Size Size
	Dir  string // scratch, removed by the caller
	Bin  string
	// Program is a built program of this project, for its peer over HTTP; empty = it is built from this revision.
	Program string
}

// Measure runs one cell in this process.
func Measure(ctx context.Context, spec Spec, entry peer.Entry) (Values, error) {
	c, err := CaseNamed(spec.Size, spec.Case)
	if err != nil {
		return nil, err
	}

	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}

	b := &Bench{Peer: entry.New(), Info: entry.Info, Size: spec.Size, New: entry.New, Self: self, ends: new([]func() error), Env: c.Env}
	b.Env.Dir, b.Env.Bin, b.Env.Program, b.Env.Handlers = spec.Dir, spec.Bin, spec.Program, cmp.Or(c.Env.Handlers, lateHandlers)
	b.cleanup(b.Peer.Stop)
	if err := b.Peer.Start(ctx, b.Env); err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", spec.Peer, err), b.Peer.Stop())
	}

	return b.run(ctx, c)
}

// run runs a case, and then calls its cleanups.
func (b *Bench) run(ctx context.Context, c Case) (v Values, err error) {
	defer func() {
		for _, end := range slices.Backward(*b.ends) {
			err = errors.Join(err, end())
		}
	}()
	defer failed(&err)
	return c.Run(ctx, b), nil
}

// CaseNamed is a case by its name.
func CaseNamed(size Size, name string) (Case, error) {
	for _, c := range Cases(size) {
		if c.Name == name {
			return c, nil
		}
	}
	return Case{}, fmt.Errorf("there is no case %q", name)
}
