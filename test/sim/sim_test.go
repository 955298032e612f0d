package sim

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"notifier/test/record"
)

var (
	stepsFlag  = flag.Int("sim.steps", 4000, "number of steps of the simulator")
	seedFlag   = flag.Uint64("sim.seed", 1, "first seed; 0 = random")
	shrinkFlag = flag.Duration("sim.shrink", 500*time.Millisecond, "time to shrink the story of a mutant")
	mutants    = flag.Int("sim.mutants", 3, "number of mutants to try")
	firstFlag  = flag.Int("sim.first", 0, "index of the first mutant to try")
	withinFlag = flag.Int("sim.within", 40_000, "maximum number of steps to find a mutant")
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, goleak.Cleanup(writeRecord)) }

// summary collects the results of this run for the record.
var summary struct {
	sync.Mutex
	redis          string // version
	lines, mutants []string
}

func summarize(to *[]string, format string, args ...any) {
	summary.Lock()
	defer summary.Unlock()
	*to = append(*to, fmt.Sprintf(format, args...))
}

// writeRecord saves the summary of a successful run if RECORD=1 is set.
func writeRecord(code int) {
	if code == 0 && os.Getenv("RECORD") == "1" {
		text := fmt.Sprintf("%s, %s, %s/%s, %d processors.\n\n", summary.redis, runtime.Version(), runtime.GOOS, runtime.GOARCH,
			runtime.NumCPU()) +
			strings.Join(summary.lines,
				"\n") + "\n\n| mutant | found after steps | story, in lines |\n|---|---|---|\n" + strings.Join(summary.mutants, "\n")
		if err := record.Save(filepath.Join("..", ".."), "sim", text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// stepsOfARun is the average number of steps of a run.
const stepsOfARun = 200

// shares is the percentage of the steps that each kind of world gets.
var shares = []struct {
	kind    kind
	percent int
}{{onePrefix, 25}, {sequences, 20}, {moves, 20}, {adoption, 15}, {reshards, 20}}

func TestScriptsMatchModel(t *testing.T) {
	from := seed(*seedFlag)
	for _, share := range shares {
		t.Run(strings.ReplaceAll(string(share.kind), " ", "-"), func(t *testing.T) {
			l, begun, want := newLab(t, share.kind, mutation{}), time.Now(), *stepsFlag*share.percent/100
			l.check(t, from, want, 30*time.Second)
			if l.steps < want {
				t.Errorf("%d steps were taken, want %d", l.steps, want)
			}
			summarize(&summary.lines, "- %d steps in worlds of %s from seed %d on, each compared with the model, in %.0f s: nothing found.",
				l.steps, share.kind, from, time.Since(begun).Seconds())
		})
	}
}

// check runs the simulator for a number of steps.
func (l *lab) check(t rapid.TB, seed uint64, steps int, shrink time.Duration) {
	t.Helper()
	l.repeat(t, seed, steps, shrink, l.world)
}

// world makes one run in the lab's kind of world.
func (l *lab) world(rt *rapid.T) { rt.Repeat(newWorld(l, rt).actions()) }

// repeat makes runs until the number of steps is reached.
func (l *lab) repeat(t rapid.TB, seed uint64, steps int, shrink time.Duration, run func(*rapid.T)) {
	t.Helper()
	t.Logf("seed %d: to run this again, -sim.seed=%d -sim.steps=%d", seed, seed, steps)
	set(t, "rapid.steps", strconv.Itoa(stepsOfARun))
	set(t, "rapid.nofailfile", "true")
	set(t, "rapid.checks", strconv.Itoa(min(max(steps/stepsOfARun, 1), 20)))
	set(t, "rapid.shrinktime", shrink.String())
	for l.steps < steps {
		set(t, "rapid.seed", strconv.FormatUint(seed, 10))
		rapid.Check(t, func(rt *rapid.T) {
			ended := false
			defer func() {
				if !ended && l.failedAt == 0 {
					l.failedAt = l.steps
				}
			}()
			run(rt)
			ended = true
		})
		seed++
	}
	t.Logf("%d steps, the last seed was %d", l.steps, seed-1)
}

func set(t rapid.TB, name, value string) {
	t.Helper()
	if err := flag.Set(name, value); err != nil {
		t.Fatal(err)
	}
}
