package harness

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Program is a built program of this project.
type Program struct {
	Path, SHA256, Version string
	Bytes                 int64
}

// Pair are the values of two programs in one case, measured one after the other. The programs change places from pair
// to pair.
type Pair struct {
	Case     string
	Number   int
	Old, New Cell
}

// Comparison is a run that compares two programs.
type Comparison struct {
	Started, Ended time.Time
	Commit         string // of this program
	Machine        Machine
	Size           Size
	Old, New       Program
	Fixed          []Fixed
	Pairs          []Pair
}

// ComparePairs measures each case of the size n times with both programs. save is called after each pair.
func ComparePairs(ctx context.Context, size Size, oldPath, newPath string, n int, log io.Writer,
	save func(*Comparison) error,
) (*Comparison, error) {
	r := &Comparison{Started: time.Now().UTC(), Commit: Revision(ctx), Machine: ThisMachine(), Size: size}
	if err := errors.Join(r.Old.read(ctx, oldPath), r.New.read(ctx, newPath)); err != nil {
		return nil, err
	}

	scratch, err := makeScratch()
	if err != nil {
		return nil, err
	}

	defer os.RemoveAll(scratch)
	for i := range n {
		f, err := measureFixed(ctx, filepath.Join(scratch, "fixed"))
		if err != nil {
			return r, fmt.Errorf("fixed workload: %w", err)
		}

		r.Fixed = append(r.Fixed, f)
		fmt.Fprintf(log, "pair %d of %d; fixed workload: SET %.0f/s, HTTP %.0f/s\n", i+1, n, f.Set, f.HTTP)
		for _, cas := range size.Cases {
			pair := Pair{Case: cas, Number: i + 1}
			both := []*Cell{&pair.Old, &pair.New}
			for k := range both { // each second pair begins with the new program
				at := (k + i) % len(both)
				c := Cell{Peer: size.Peers[0], Case: cas, Repeat: i}
				*both[at] = runCell(ctx, size, c, filepath.Join(scratch, "cell"), "", []string{r.Old.Path, r.New.Path}[at])
				if ctx.Err() != nil {
					return r, ctx.Err()
				}

				fmt.Fprintf(log, "%-14s %s %5.1f s  %s\n", cas, []string{"old", "new"}[at], both[at].Seconds, summary(*both[at]))
			}

			r.Pairs, r.Ended = append(r.Pairs, pair), time.Now().UTC()
			if err := save(r); err != nil {
				return r, err
			}
		}
	}

	return r, r.failed()
}

// failed returns an error if a cell has one.
func (r *Comparison) failed() error {
	for _, p := range r.Pairs {
		if p.Old.Error != "" || p.New.Error != "" {
			return fmt.Errorf("pair %d of %s failed", p.Number, p.Case)
		}
	}

	return nil
}

// read describes the program at a path.
func (p *Program) read(ctx context.Context, path string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return fmt.Errorf("find %s: %w", path, err)
	}

	b, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read the program: %w", err)
	}

	sum := sha256.Sum256(b)
	p.Path, p.Bytes, p.SHA256 = path, int64(len(b)), hex.EncodeToString(sum[:])
	out, err := exec.CommandContext(ctx, path, "version").Output()
	if err != nil {
		return fmt.Errorf("%s version: %w", path, err)
	}

	p.Version, _, _ = strings.Cut(string(out), "\n")
	return nil
}
