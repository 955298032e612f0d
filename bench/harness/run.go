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
	"syscall"
	"time"

	"notifier/bench/peer"
	"notifier/bench/server"
)

// Cell is one measurement.
type Cell struct {
	Peer, Case string
	Repeat     int
	Values     Values `json:",omitempty"`
	Error      string `json:",omitempty"`
	// Commit is the revision of a cell that an earlier version of this program added to a result of another
	// revision. Run refuses that.
	Commit  string  `json:",omitempty"`
	Seconds float64 // how long it took
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
	Fixed          []Fixed `json:",omitempty"` // before and after each run that is part of the result
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
	// Base is an earlier result of the same revision whose cells of the same peers and cases are replaced by
	// this run's; may be nil.
	Base *Result
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
	if err := o.oneRevision(revision); err != nil {
		return nil, err
	}

	scratch, err := makeScratch()
	if err != nil {
		return nil, err
	}

	defer os.RemoveAll(scratch)

	res := o.Base
	if res == nil {
		res = &Result{Started: time.Now().UTC(), Commit: revision, Machine: ThisMachine(), Size: o.Size, Missing: map[string]string{}}
	}

	res.renew(o.Size, plan.cells)
	res.addPeers(o.Entries, plan.entries)
	for _, e := range plan.entries {
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

// measure measures the cells and adds them to the result.
func (r *Result) measure(ctx context.Context, o Options, scratch string, cells []Cell) error {
	total := len(cells)
	for i, c := range cells {
		if r.Missing[c.Peer] != "" {
			continue
		}

		c = runCell(ctx, o, c, filepath.Join(scratch, fmt.Sprintf("cell%d", i)), filepath.Join(scratch, "bin"))
		if ctx.Err() != nil {
			return ctx.Err()
		}

		fmt.Fprintf(o.Log, "[%d/%d] %-14s %-20s %5.1f s  %s\n", i+1, total, c.Case, c.Peer, c.Seconds, summary(c))
		r.Cells = append(r.Cells, c)
		if o.Base == nil { // otherwise the page describes an earlier run
			r.Ended = time.Now().UTC()
		}

		if err := o.Save(r); err != nil {
			return err
		}
	}

	return nil
}

// oneRevision refuses a result that could not be reproduced: of several revisions, or of a tree that no
// commit holds.
func (o *Options) oneRevision(revision string) error {
	dirty := strings.HasSuffix(revision, "-dirty")
	if o.Publish && dirty {
		return fmt.Errorf("%s: a published result needs a tree without uncommitted changes; commit them, or measure with -no-docs", revision)
	}
	if o.Base == nil {
		return nil
	}

	if dirty || o.Base.Commit != revision || len(o.Base.OtherRevisions()) > 0 {
		return fmt.Errorf("-append: the result is of revision %s and this tree of %s; a result holds one clean revision: measure all again",
			o.Base.Commit, revision)
	}

	return nil
}

// renew removes the cells that are measured again, and replaces the size: that of an earlier run lacks
// settings of newer cases.
func (r *Result) renew(size Size, anew []Cell) {
	r.Size = size
	r.Cells = slices.DeleteFunc(r.Cells, func(old Cell) bool {
		return slices.ContainsFunc(anew, func(c Cell) bool { return c.Peer == old.Peer && c.Case == old.Case })
	})
}

// addPeers adds missing peers in the order of all. The descriptions of peers that are not measured now, such
// as their versions, stay.
func (r *Result) addPeers(all, now []peer.Entry) {
	var infos []peer.Info
	for _, e := range all {
		is := func(i peer.Info) bool { return i.Name == e.Info.Name }
		if slices.ContainsFunc(now, func(e peer.Entry) bool { return is(e.Info) }) || slices.ContainsFunc(r.Peers, is) {
			info := e.Info
			if old := slices.IndexFunc(r.Peers, is); old >= 0 && info.Kind != peer.Ours &&
				!slices.ContainsFunc(now, func(e peer.Entry) bool { return is(e.Info) }) {
				info = r.Peers[old]
			}

			infos = append(infos, info)
		}
	}

	r.Peers = infos
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

	// Peers without a part in these cases keep their descriptions.
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

func runCell(ctx context.Context, o Options, c Cell, dir, bin string) Cell {
	start := time.Now()
	values, err := cellProcess(ctx, o, c, dir, bin)
	c.Values, c.Seconds = values, time.Since(start).Seconds()
	if err != nil {
		c.Error = err.Error()
	}

	return c
}

func cellProcess(ctx context.Context, o Options, c Cell, dir, bin string) (_ Values, err error) {
	if err := os.Mkdir(dir, 0o711); err != nil {
		return nil, fmt.Errorf("make a scratch directory: %w", err)
	}

	defer os.RemoveAll(dir)
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}

	spec, err := json.Marshal(Spec{Peer: c.Peer, Case: c.Case, Size: o.Size, Dir: dir, Bin: bin})
	if err != nil {
		return nil, err
	}

	ctx, cancel := context.WithTimeoutCause(ctx, cellTimeout(o.Size), errors.New("the cell hung"))
	defer cancel()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, self, "cell", string(spec))
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

	text := fmt.Sprintf("%s: revision %s, measured on %s, %.0f days and %s commits ago", r.Size.Name, r.Commit,
		r.Started.Format(time.DateOnly), now.Sub(r.Started).Hours()/24, newer)
	if n := len(r.OtherRevisions()); n > 0 {
		text += fmt.Sprintf("; some cells are of %d other revisions", n)
	}

	return text
}

// OtherRevisions are those of cells that were added to the result later, sorted.
func (r *Result) OtherRevisions() []string {
	var list []string
	for _, c := range r.Cells {
		if c.Commit != "" {
			list = append(list, c.Commit)
		}
	}

	slices.Sort(list)
	return slices.Compact(list)
}
