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
	stepsFlag  = flag.Int("sim.steps", stepsOfATest, "how many steps the simulator takes")
	seedFlag   = flag.Uint64("sim.seed", 1, "where chance begins; 0 = anywhere")
	shrinkFlag = flag.Duration("sim.shrink", 500*time.Millisecond, "how long the story of a mutant is shortened")
	mutants    = flag.Int("sim.mutants", 3, "how many of the mutants are tried")
	withinFlag = flag.Int("sim.within", 40_000, "within how many steps each is found, many times over")
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, goleak.Cleanup(writeRecord)) }

// summary is what this run found, for the record.
var summary struct {
	sync.Mutex
	redis          string // its version
	lines, mutants []string
}

func summarize(to *[]string, format string, args ...any) {
	summary.Lock()
	defer summary.Unlock()
	*to = append(*to, fmt.Sprintf(format, args...))
}

// writeRecord writes a run's summary where RECORD=1 asks for it.
func writeRecord(code int) {
	if code == 0 && os.Getenv("RECORD") == "1" {
		text := fmt.Sprintf("%s, %s, %s/%s, %d processors.\n\n", summary.redis, runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU()) +
			strings.Join(summary.lines, "\n") + "\n\n| mutant | found after steps | story, in lines |\n|---|---|---|\n" + strings.Join(summary.mutants, "\n")
		if err := record.Save(filepath.Join("..", ".."), "sim", text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// stepsOfARun is what a run takes on average.
const stepsOfARun = 200

// shares is how much of the steps is taken in each kind of world.
var shares = []struct {
	kind    kind
	percent int
}{{onePrefix, 40}, {moves, 25}, {adoption, 15}, {reshards, 20}}

func TestTheScriptsDoWhatTheModelSays(t *testing.T) {
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

// check runs the simulator until it has taken so many steps.
func (l *lab) check(t rapid.TB, seed uint64, steps int, shrink time.Duration) {
	t.Helper()
	l.repeat(t, seed, steps, shrink, l.world)
}

// world is one run of a kind of world.
func (l *lab) world(rt *rapid.T) { rt.Repeat(newWorld(l, rt).actions()) }

// repeat makes runs until so many steps are taken.
func (l *lab) repeat(t rapid.TB, seed uint64, steps int, shrink time.Duration, run func(*rapid.T)) {
	t.Helper()
	t.Logf("seed %d: to run this again, -sim.seed=%d -sim.steps=%d", seed, seed, steps)
	set(t, "rapid.steps", strconv.Itoa(stepsOfARun))
	set(t, "rapid.nofailfile", "true")
	set(t, "rapid.checks", "20")
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
