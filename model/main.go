package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"sync"
	"time"

	"notifier/test/record"
)

// folder is where the model is, from the root of the repository.
const folder = "model"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	stories := flag.Bool("stories", false, "print how each mutant fails")
	write := flag.Bool("record", os.Getenv("RECORD") == "1", "write the result to docs/records/model.txt")
	flag.Parse()
	ok, err := check(ctx, *stories, *write)
	if err != nil {
		fail(err)
	}

	if !ok {
		stop()
		os.Exit(1)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "model:", err)
	os.Exit(1)
}

// check runs all, as many at once as there are processors, and prints the results
// in the order of the tables.
func check(ctx context.Context, stories, write bool) (bool, error) {
	begun := time.Now()
	found, err := searchAll(ctx)
	if err != nil {
		return false, err
	}

	var page strings.Builder
	took := time.Duration(used.Load())
	fmt.Fprintf(&page, "%s, %s, %s/%s. Every run is exhaustive: no seed. All took %.0f s of processor time, of %.0f s that they may take, "+
		"and %.0f s on %d processors.\n\n",
		version(ctx), runtime.Version(), runtime.GOOS, runtime.GOARCH, took.Seconds(), budget.Seconds(), time.Since(begun).Seconds(),
		runtime.NumCPU())
	passed := writeRuns(&page, found.runs)
	failed := writeMutants(&page, found.mutants, stories)
	fmt.Print(page.String())

	ok := passed && failed
	if took > budget {
		ok = false
		fmt.Printf("\nAll took %.0f s of processor time, more than the %.0f s that they may: make the model or the runs smaller.\n",
			took.Seconds(), budget.Seconds())
	}

	if write && ok {
		return ok, record.Save(".", "model", page.String())
	}

	return ok, nil
}

// results holds the result of each run and of each mutant, in the order of the tables.
type results struct{ runs, mutants []result }

// searchAll searches all runs and mutants, as many at a time as there are processors.
func searchAll(ctx context.Context) (results, error) {
	found := results{make([]result, len(runs)), make([]result, len(mutants))}
	errs := make([]error, len(runs)+len(mutants))
	var wg sync.WaitGroup
	work := make(chan int)
	for range runtime.NumCPU() {
		wg.Go(func() {
			for i := range work {
				if i < len(runs) {
					found.runs[i], errs[i] = searchRun(ctx, runs[i])
				} else {
					found.mutants[i-len(runs)], errs[i] = searchMutant(ctx, mutants[i-len(runs)])
				}
			}
		})
	}

	for i := range errs {
		work <- i
	}

	close(work)
	wg.Wait()

	for _, err := range errs {
		if err != nil {
			return found, err
		}
	}

	return found, nil
}

func searchRun(ctx context.Context, r run) (result, error) {
	from := time.Now()
	found, err := search(ctx, r.with, r.ends, false)
	fmt.Fprintf(os.Stderr, "model: %s: %d states, %.0f s\n", r.name, found.states, time.Since(from).Seconds())
	return found, err
}

func searchMutant(ctx context.Context, m mutant) (result, error) {
	from := time.Now()
	found, err := search(ctx, append([]string{"MUTANT=" + m.name}, m.with...), m.ends, true)
	fmt.Fprintf(os.Stderr, "model: %s: step %d, %.0f s\n", m.name, found.step, time.Since(from).Seconds())
	return found, err
}

// writeRuns writes the table of the runs, and reports whether none of them found a fault.
func writeRuns(page *strings.Builder, found []result) bool {
	ok := true
	fmt.Fprintf(page, "| run | holds | states | transitions | depth | finds |\n|---|---|---|---|---|---|\n")
	states, transitions := 0, 0
	for i, r := range runs {
		f, finds := found[i], "nothing"
		if f.broke != "" {
			ok = false
			finds = fmt.Sprintf("**%s**, at step %d", f.broke, f.step)
			fmt.Printf("%s fails: %s, at step %d\n  %s\n", r.name, f.broke, f.step, strings.Join(f.story, "\n  "))
		}

		states, transitions = states+f.states, transitions+f.transitions
		fmt.Fprintf(page, "| %s | `%s` | %d | %d | %d | %s |\n", r.name, strings.Join(r.with, " "), f.states, f.transitions, f.depth, finds)
	}

	fmt.Fprintf(page, "| all | | %d | %d | | |\n\n", states, transitions)
	return ok
}

// writeMutants writes the table of the mutants, and reports whether all of them failed.
func writeMutants(page *strings.Builder, found []result, stories bool) bool {
	ok := true
	fmt.Fprintf(page, "| mutant | fault | breaks | at step |\n|---|---|---|---|\n")
	for i, m := range mutants {
		broke, step := found[i].broke, fmt.Sprint(found[i].step)
		if broke == "" {
			ok = false
			broke, step = "**nothing**", "–"
			fmt.Printf("the mutant %s does not fail\n", m.name)
		}

		fmt.Fprintf(page, "| `%s` | %s | %s | %s |\n", m.name, m.what, broke, step)
		if stories {
			fmt.Printf("%s: %s\n  %s\n", m.name, m.what, strings.Join(found[i].story, "\n  "))
		}
	}

	return ok
}

func version(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, "spin", "-V").Output()
	if err != nil {
		return "spin of an unknown version"
	}

	return strings.TrimSpace(string(out))
}
