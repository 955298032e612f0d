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
	// Commit is that of a cell that was added to a result of another one.
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
	Missing        map[string]string // by peer: what it needs, and how to get it
	Cells          []Cell
}

// Options say what to run.
type Options struct {
	Size    Size
	Entries []peer.Entry
	Peers   []string // empty = the size's
	Cases   []string // empty = the size's
	Log     io.Writer
	// Save is called after each cell, so that a run that is cut off keeps what
	// it has.
	Save func(*Result) error
	// Base is an earlier result that this run's cells are added to, in the place of
	// those of the same peers and cases; may be nil.
	Base *Result
}

// Run measures all cells, each in a process of its own.
func Run(ctx context.Context, o Options) (*Result, error) {
	plan, err := makePlan(o)
	if err != nil {
		return nil, err
	}
	scratch, err := os.MkdirTemp("", "notifier-bench-")
	if err != nil {
		return nil, fmt.Errorf("make a scratch directory: %w", err)
	}
	defer os.RemoveAll(scratch)
	// PostgreSQL runs as another user if we are root, and must get through.
	if err := os.Chmod(scratch, 0o711); err != nil {
		return nil, fmt.Errorf("open the scratch directory: %w", err)
	}
	bin := filepath.Join(scratch, "bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		return nil, fmt.Errorf("make a scratch directory: %w", err)
	}
	res := o.Base
	if res == nil {
		res = &Result{Started: time.Now().UTC(), Commit: commit(ctx), Machine: ThisMachine(), Size: o.Size, Missing: map[string]string{}}
	}
	res.renew(o.Size, plan.cells)
	added := commit(ctx)
	if added == res.Commit {
		added = ""
	}
	res.addPeers(o.Entries, plan.entries)
	for _, e := range plan.entries {
		if hint := Missing(e.Info); hint != "" {
			res.Missing[e.Info.Name] = hint
			fmt.Fprintf(o.Log, "%s is left out: %s\n", e.Info.Name, hint)
		}
	}
	total := len(plan.cells)
	for i, c := range plan.cells {
		if res.Missing[c.Peer] != "" {
			continue
		}
		c.Commit = added
		c = runCell(ctx, o, c, filepath.Join(scratch, fmt.Sprintf("cell%d", i)), bin)
		if ctx.Err() != nil {
			return res, ctx.Err()
		}
		fmt.Fprintf(o.Log, "[%d/%d] %-14s %-20s %5.1f s  %s\n", i+1, total, c.Case, c.Peer, c.Seconds, summary(c))
		res.Cells = append(res.Cells, c)
		if o.Base == nil { // else the run that the page tells of has ended before
			res.Ended = time.Now().UTC()
		}
		if err := o.Save(res); err != nil {
			return res, err
		}
	}
	return res, nil
}

// renew takes out what is measured anew, and takes over the size: that of an earlier run
// lacks what cases have come to need since.
func (r *Result) renew(size Size, anew []Cell) {
	r.Size = size
	r.Cells = slices.DeleteFunc(r.Cells, func(old Cell) bool {
		return slices.ContainsFunc(anew, func(c Cell) bool { return c.Peer == old.Peer && c.Case == old.Case })
	})
}

// addPeers adds those that are not there yet, and keeps the order of all. What is
// said of those that are not measured now, such as their version, stays.
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

// makePlan orders the cells: case by case, in each the repeats, in each the
// peers, rotated from repeat to repeat.
func makePlan(o Options) (plan, error) {
	var p plan
	names := o.Peers
	if len(names) == 0 {
		names = o.Size.Peers
	}
	for _, e := range o.Entries {
		if len(names) == 0 || slices.Contains(names, e.Info.Name) || slices.Contains(names, "all") {
			p.entries = append(p.entries, e)
		}
	}
	for _, n := range names {
		if n != "all" && !slices.ContainsFunc(o.Entries, func(e peer.Entry) bool { return e.Info.Name == n }) {
			return p, fmt.Errorf("-peers: there is no peer %q", n)
		}
	}
	wanted := o.Cases
	if len(wanted) == 0 {
		wanted = o.Size.Cases
	}
	cases := Cases(o.Size)
	for _, n := range wanted {
		if !slices.ContainsFunc(cases, func(c Case) bool { return c.matches(n) }) {
			return p, fmt.Errorf("-cases: there is no case %q", n)
		}
	}
	for _, c := range cases {
		if len(wanted) > 0 && !slices.ContainsFunc(wanted, c.matches) {
			continue
		}
		repeats := o.Size.Repeats
		if slices.ContainsFunc(o.Size.Once, c.matches) {
			repeats = 1
		}
		peers := peersOf(c, p.entries, o)
		for r := range repeats {
			for i := range peers {
				if r > 0 && len(o.Size.Often) > 0 && !slices.Contains(o.Size.Often, peers[(i+r)%len(peers)]) {
					continue
				}
				p.cells = append(p.cells, Cell{Peer: peers[(i+r)%len(peers)], Case: c.Name, Repeat: r})
			}
		}
	}
	// Of those that have no part in these cases nothing is said anew.
	p.entries = slices.DeleteFunc(p.entries, func(e peer.Entry) bool {
		return !slices.ContainsFunc(p.cells, func(c Cell) bool { return c.Peer == e.Info.Name })
	})
	return p, nil
}

// matches reports whether a flag's or a size's name means this case: growth
// means all of growth-10000, growth-100000, …
func (c *Case) matches(name string) bool {
	return c.Name == name || (name == "growth" && strings.HasPrefix(c.Name, "growth-"))
}

func peersOf(c Case, entries []peer.Entry, o Options) []string {
	var only []string
	if len(o.Peers) == 0 { // named peers are wanted everywhere
		for name, peers := range o.Size.Only {
			if c.matches(name) {
				only = peers
			}
		}
	}
	var names []string
	for _, e := range entries {
		if e.Info.Skip[c.Name] != "" || (c.Only != nil && !c.Only(e.Info)) || (len(only) > 0 && !slices.Contains(only, e.Info.Name)) {
			continue
		}
		names = append(names, e.Info.Name)
	}
	return names
}

// Missing says what a peer needs and this machine lacks, and how to get it;
// empty = nothing.
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

// cellTimeout is far above what any cell takes: it ends one that hangs.
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
	// A group of its own: an interrupt at the terminal must not reach its
	// servers before it has stopped them.
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

// commit is the repository's revision, so that a table can be reproduced.
func commit(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}
