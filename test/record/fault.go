package record

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// What `make distributed` sets.
const (
	envPage = "DISTRIBUTED_PAGE" // where the rows go; none: they are logged
	envSize = "DISTRIBUTED"      // nightly: the larger size
	envSeed = "SEED"
)

// Sized returns nightly if the environment selects the nightly size, else short.
func Sized[T any](short, nightly T) T {
	if os.Getenv(envSize) == "nightly" {
		return nightly
	}
	return short
}

// Seed is where chance begins.
func Seed(t testing.TB) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(cmp.Or(os.Getenv(envSeed), "1"), 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", envSeed, err)
	}

	return n
}

// header names the cells of a fault's row.
var header = []string{"no", "fault", "settings", "notices", "lost", "doubled", "early", "late max", "API errors", "aim", "found", "test",
	"seed", "versions",
	"took, load of the machine", "date"}

// Fault is a row of the table in docs/records/faults.txt.
type Fault struct {
	No              string
	Fault, Settings string
	Counts          *Counts // nil: nothing is counted
	Aim, Found      string  // the aim; the result, or why the fault was not tried
	Server          string
	From            time.Time
}

// Counts are the numbers of the ledger; nil means not counted.
type Counts struct {
	Notices, Lost, Doubled int
	Early, Failed          *int
	Late                   *time.Duration
}

// Put records the row, also if it misses its aim.
func (f Fault) Put(t testing.TB) {
	t.Helper()
	counts := []string{"–", "–", "–", "–", "–", "–"}
	if x := f.Counts; x != nil {
		for i, n := range []*int{&x.Notices, &x.Lost, &x.Doubled, x.Early, nil, x.Failed} {
			if n != nil {
				counts[i] = strconv.Itoa(*n)
			}
		}
		if x.Late != nil {
			counts[4] = Short(*x.Late)
		}
	}

	name, _, _ := strings.Cut(t.Name(), "/")
	cells := append([]string{f.No, f.Fault, f.Settings}, counts...)
	cells = append(cells, f.Aim, f.Found, "`"+name+"`", strconv.FormatUint(Seed(t), 10),
		strings.TrimPrefix(f.Server+", notifier "+revision, ", "),
		fmt.Sprintf("%.0f s, load %s", time.Since(f.From).Seconds(), load()), time.Now().UTC().Format(time.DateOnly))
	t.Logf("| %s |", strings.Join(cells, " | "))
	if page := os.Getenv(envPage); page != "" {
		if err := PutRow(page, "distributed", header, cells); err != nil {
			t.Error(err)
		}
	}
}

// Reached says of a measure whether it kept to its aim.
func Reached(ok bool, found string) string {
	if ok {
		return found
	}
	return "**missed**: " + found
}

// Short is a duration for a reader.
func Short(d time.Duration) string {
	switch {
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000)
	case d < 10*time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}

// load is the machine's, of the last minute, and what priority the test has in it, by
// which lateness is to be judged.
func load() string {
	raw, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}

	load, _, _ := strings.Cut(string(raw), " ")
	about, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return load
	}

	_, rest, _ := strings.Cut(string(about), ") ") // the name may hold blanks
	const nice = 16                                // from the state on
	if f := strings.Fields(rest); len(f) > nice && f[nice] != "0" {
		load += ", nice " + f[nice]
	}

	return load
}

// revision is the commit that the run began at: the tree may move on while it lasts.
var revision = func() string {
	if os.Getenv(envPage) == "" && os.Getenv(envWays) == "" {
		return "of this tree"
	}

	return Revision()
}()

// Revision returns the commit of the tree.
func Revision() string {
	out, err := exec.CommandContext(context.Background(), "git", "rev-parse", "--short", "HEAD").Output()
	if err != nil {
		return "of an unknown commit"
	}

	return strings.TrimSpace(string(out))
}
