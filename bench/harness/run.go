package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"notifier/bench/peer"
	"notifier/bench/server"
)

// Cell is one measurement.
type Cell struct {
	Peer, Case string
	Repeat     int
	Values     Values  `json:",omitempty"`
	Error      string  `json:",omitempty"`
	Seconds    float64 // how long it took
}

// Result is a whole run.
type Result struct {
	Started, Ended time.Time
	Commit         string
	Machine        Machine
	Size           Size
	Peers          []peer.Info
	Missing        map[string]string // by peer: the missing program, and how to install it
	Cells          []Cell
	Fixed          []Fixed `json:",omitempty"` // before and after the cells
}

// Options select the cells of a run.
type Options struct {
	Size    Size
	Entries []peer.Entry
	Peers   []string // empty = the size's
	Cases   []string // empty = the size's
	Log     io.Writer
	// Save is called after each cell, so that an interrupted run keeps its results.
	Save func(*Result) error
	// Publish says that the result will be published: Run refuses a tree with uncommitted changes.
	Publish bool
}

// Run measures all cells, each in a separate process.
func Run(ctx context.Context, o Options) (*Result, error) {
	plan, err := makePlan(o)
	if err != nil {
		return nil, err
	}

	revision := Revision(ctx)
	if err := o.reproducible(revision); err != nil {
		return nil, err
	}

	scratch, err := makeScratch()
	if err != nil {
		return nil, err
	}

	defer os.RemoveAll(scratch)

	res := &Result{Started: time.Now().UTC(), Commit: revision, Machine: ThisMachine(), Size: o.Size, Missing: map[string]string{}}
	for _, e := range plan.entries {
		res.Peers = append(res.Peers, e.Info)
		if hint := Missing(e.Info); hint != "" {
			res.Missing[e.Info.Name] = hint
			fmt.Fprintf(o.Log, "%s is left out: %s\n", e.Info.Name, hint)
		}
	}

	if err := res.addFixed(ctx, o, scratch, "before"); err != nil {
		return res, err
	}
	if err := res.measure(ctx, o, scratch, plan.cells); err != nil {
		return res, err
	}

	return res, res.addFixed(ctx, o, scratch, "after")
}

// reproducible refuses to publish the result of a tree that no commit holds.
func (o *Options) reproducible(revision string) error {
	if o.Publish && strings.HasSuffix(revision, "-dirty") {
		return fmt.Errorf("%s: a published result needs a tree without uncommitted changes; commit them, or measure with -no-docs", revision)
	}
	return nil
}

// makeScratch makes the directory for the files of a run, with an empty directory bin for built programs.
func makeScratch() (string, error) {
	scratch, err := os.MkdirTemp("", "notifier-bench-")
	if err != nil {
		return "", fmt.Errorf("make a scratch directory: %w", err)
	}
	// If we are root, PostgreSQL runs as another user, which must be able to enter the directory.
	if err := os.Chmod(scratch, 0o711); err != nil {
		return "", fmt.Errorf("open the scratch directory: %w", err)
	}
	if err := os.Mkdir(filepath.Join(scratch, "bin"), 0o755); err != nil {
		return "", fmt.Errorf("make a scratch directory: %w", err)
	}

	return scratch, nil
}

// addFixed measures the fixed workload and adds it to the result.
func (r *Result) addFixed(ctx context.Context, o Options, scratch, when string) error {
	f, err := measureFixed(ctx, filepath.Join(scratch, "fixed-"+when))
	if err != nil {
		return fmt.Errorf("fixed workload: %w", err)
	}

	fmt.Fprintf(o.Log, "fixed workload %s: SET %.0f/s, HTTP %.0f/s\n", when, f.Set, f.HTTP)
	r.Fixed = append(r.Fixed, f)
	return o.Save(r)
}

// atOnce is the maximum number of cells that run at once in a case that allows it.
const atOnce = 4

// measure measures the cells and adds them to the result.
func (r *Result) measure(ctx context.Context, o Options, scratch string, cells []Cell) error {
	cells = slices.DeleteFunc(cells, func(c Cell) bool { return r.Missing[c.Peer] != "" })
	for i := 0; i < len(cells); {
		block := together(o.Size, cells[i:])
		var wg sync.WaitGroup
		for k := range block {
			dir := filepath.Join(scratch, fmt.Sprintf("cell%d", i+k))
			wg.Go(func() { block[k] = runCell(ctx, o.Size, block[k], dir, filepath.Join(scratch, "bin"), "") })
		}

		wg.Wait()
		if ctx.Err() != nil {
			return ctx.Err()
		}

		i += len(block)
		for _, c := range block {
			fmt.Fprintf(o.Log, "[%d/%d] %-14s %-20s %5.1f s  %s\n", i, len(cells), c.Case, c.Peer, c.Seconds, summary(c))
		}

		r.Cells = append(r.Cells, block...)
		r.Ended = time.Now().UTC()
		if err := o.Save(r); err != nil {
			return err
		}
	}

	return nil
}

// together returns the first of the cells, with others that may run at the same time.
func together(size Size, cells []Cell) []Cell {
	n := 1
	if c, err := CaseNamed(size, cells[0].Case); err == nil && c.Together {
		for n < min(atOnce, len(cells)) && cells[n].Case == cells[0].Case {
			n++
		}
	}

	return cells[:n]
}

type plan struct {
	entries []peer.Entry
	cells   []Cell
}

// makePlan orders the cells by case, within a case by repeat, and within a repeat by peer. The order of peers
// rotates from repeat to repeat.
func makePlan(o Options) (p plan, err error) {
	if p.entries, err = wantedEntries(o); err != nil {
		return p, err
	}

	cases, err := wantedCases(o)
	if err != nil {
		return p, err
	}

	for _, c := range cases {
		p.cells = append(p.cells, cellsOf(c, peersOf(c, p.entries, o), o.Size)...)
	}

	// The result describes only peers that have a part in these cases.
	p.entries = slices.DeleteFunc(p.entries, func(e peer.Entry) bool {
		return !slices.ContainsFunc(p.cells, func(c Cell) bool { return c.Peer == e.Info.Name })
	})
	return p, nil
}

// wantedEntries returns the entries of the peers that the options or the size name, or all.
func wantedEntries(o Options) (entries []peer.Entry, err error) {
	names := o.Peers
	if len(names) == 0 {
		names = o.Size.Peers
	}

	for _, n := range names {
		if n != "all" && !slices.ContainsFunc(o.Entries, func(e peer.Entry) bool { return e.Info.Name == n }) {
			return nil, fmt.Errorf("-peers: there is no peer %q", n)
		}
	}

	for _, e := range o.Entries {
		if len(names) == 0 || slices.Contains(names, e.Info.Name) || slices.Contains(names, "all") {
			entries = append(entries, e)
		}
	}

	return entries, nil
}

// wantedCases returns the cases that the options or the size name, or all.
func wantedCases(o Options) ([]Case, error) {
	names := o.Cases
	if len(names) == 0 {
		names = o.Size.Cases
	}

	cases := Cases(o.Size)
	for _, n := range names {
		if !slices.ContainsFunc(cases, func(c Case) bool { return c.matches(n) }) {
			return nil, fmt.Errorf("-cases: there is no case %q", n)
		}
	}

	return slices.DeleteFunc(cases, func(c Case) bool {
		return len(names) > 0 && !slices.ContainsFunc(names, c.matches)
	}), nil
}

// cellsOf returns the cells of a case, repeat by repeat, with the peers in rotated order.
func cellsOf(c Case, peers []string, size Size) (cells []Cell) {
	repeats := size.Repeats
	if slices.ContainsFunc(size.Once, c.matches) {
		repeats = 1
	}

	for r := range repeats {
		for i := range peers {
			name := peers[(i+r)%len(peers)]
			if r > 0 && len(size.Often) > 0 && !slices.Contains(size.Often, name) {
				continue
			}

			cells = append(cells, Cell{Peer: name, Case: c.Name, Repeat: r})
		}
	}

	return cells
}

// matches reports whether a flag's or a size's name means this case: growth means all of growth-10000,
// growth-100000, …
func (c *Case) matches(name string) bool {
	return c.Name == name || (name == "growth" && strings.HasPrefix(c.Name, "growth-"))
}

func peersOf(c Case, entries []peer.Entry, o Options) []string {
	var only []string
	if len(o.Peers) == 0 { // explicitly named peers run everywhere
		for name, peers := range o.Size.Only {
			if c.matches(name) {
				only = peers
			}
		}
	}

	var names []string
	for _, e := range entries {
		others := len(e.Info.Cases) > 0 && !slices.ContainsFunc(e.Info.Cases, c.matches)
		if others || e.Info.Skip[c.Name] != "" || (c.Only != nil && !c.Only(e.Info)) ||
			(len(only) > 0 && !slices.Contains(only, e.Info.Name)) {
			continue
		}

		names = append(names, e.Info.Name)
	}

	return names
}

// Missing returns the program that a peer needs and this machine lacks, and how to install it; empty = none.
func Missing(info peer.Info) string {
	var lacks []string
	for _, n := range info.Needs {
		if _, err := server.Find(n.Program, n.Paths...); err != nil {
			lacks = append(lacks, fmt.Sprintf("%s (Debian: apt-get install %s)", n.Program, n.Package))
		}
	}

	if len(lacks) == 0 {
		return ""
	}

	return "needs " + strings.Join(lacks, " and ") + "; scripts/bench-deps.sh installs it"
}

// cellTimeout is far above the duration of any cell. It ends a hanging one.
func cellTimeout(s Size) time.Duration {
	largest := s.PendingL
	for _, n := range s.Growth {
		largest = max(largest, n)
	}

	return 3*time.Minute + 2*(s.DrainMax+s.Wait+s.Window+s.Small+s.Crash) + time.Duration(largest)*200*time.Microsecond
}

func runCell(ctx context.Context, size Size, c Cell, dir, bin, program string) Cell {
	start := time.Now()
	values, err := cellProcess(ctx, Spec{Peer: c.Peer, Case: c.Case, Size: size, Dir: dir, Bin: bin, Program: program})
	c.Values, c.Seconds = values, time.Since(start).Seconds()
	if err != nil {
		c.Error = err.Error()
	}

	return c
}

func cellProcess(ctx context.Context, task Spec) (_ Values, err error) {
	if err := os.Mkdir(task.Dir, 0o711); err != nil {
		return nil, fmt.Errorf("make a scratch directory: %w", err)
	}

	defer os.RemoveAll(task.Dir)
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}

	ctx, cancel := context.WithTimeoutCause(ctx, cellTimeout(task.Size), errors.New("the cell hung"))
	defer cancel()
	var stdout, stderr bytes.Buffer
	cmd, err := selfCommand(ctx, self, "cell", task)
	if err != nil {
		return nil, err
	}

	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	// A separate process group: an interrupt at the terminal must not reach its servers before it has stopped
	// them.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var family server.Family
	cmd.Cancel = func() error {
		family, _ = server.FamilyOf(cmd.Process.Pid) // without it, only the group is killed
		return cmd.Process.Signal(syscall.SIGTERM)
	}
	cmd.WaitDelay = 20 * time.Second
	if err := cmd.Run(); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}

		// A cell that died may have left servers.
		family.Kill()
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		return nil, fmt.Errorf("%w: %s", err, lastLines(stderr.String(), 4))
	}

	var v Values
	if err := json.Unmarshal(stdout.Bytes(), &v); err != nil {
		return nil, fmt.Errorf("read the cell's values: %w", err)
	}

	return v, nil
}

func lastLines(s string, n int) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], " | ")
}

func summary(c Cell) string {
	if c.Error != "" {
		return "FAILED: " + c.Error
	}

	names := make([]string, 0, len(c.Values))
	for n := range c.Values {
		names = append(names, n)
	}

	slices.Sort(names)
	var b strings.Builder
	for _, n := range names {
		fmt.Fprintf(&b, "%s %.4g  ", n, c.Values[n])
	}

	return strings.TrimSpace(b.String())
}

// Revision returns the repository's revision, so that a table can be reproduced. It ends with -dirty if there
// are changes that no commit holds.
func Revision(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty").Output()
	if err != nil {
		return "unknown"
	}

	return strings.TrimSpace(string(out))
}

// Age says which revision a result is of, and how old that is.
func Age(ctx context.Context, r *Result, now time.Time) string {
	newer := "an unknown number of"
	since := strings.TrimSuffix(r.Commit, "-dirty") + "..HEAD"
	if out, err := exec.CommandContext(ctx, "git", "rev-list", "--count", since).Output(); err == nil {
		newer = strings.TrimSpace(string(out))
	}

	return fmt.Sprintf("%s: revision %s, measured on %s, %.0f days and %s commits ago", r.Size.Name, r.Commit,
		r.Started.Format(time.DateOnly), now.Sub(r.Started).Hours()/24, newer)
}
