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
	plain, wrong := make([]result, len(runs)), make([]result, len(mutants))
	errs := make([]error, len(runs)+len(mutants))
	var wg sync.WaitGroup
	work := make(chan int)
	for range runtime.NumCPU() {
		wg.Go(func() {
			for i := range work {
				from := time.Now()
				if i < len(runs) {
					plain[i], errs[i] = search(ctx, runs[i].with, runs[i].ends, false)
					fmt.Fprintf(os.Stderr, "model: %s: %d states, %.0f s\n", runs[i].name, plain[i].states, time.Since(from).Seconds())
				} else {
					m := mutants[i-len(runs)]
					wrong[i-len(runs)], errs[i] = search(ctx, append([]string{"MUTANT=" + m.name}, m.with...), m.ends, true)
					fmt.Fprintf(os.Stderr, "model: %s: step %d, %.0f s\n", m.name, wrong[i-len(runs)].step, time.Since(from).Seconds())
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
			return false, err
		}
	}
	ok := true
	var page strings.Builder
	took := time.Duration(used.Load())
	fmt.Fprintf(&page, "%s, %s, %s/%s. Every run is exhaustive: no seed. All took %.0f s of processor time, of %.0f s that they may take, "+
		"and %.0f s on %d processors.\n\n",
		version(ctx), runtime.Version(), runtime.GOOS, runtime.GOARCH, took.Seconds(), budget.Seconds(), time.Since(begun).Seconds(),
		runtime.NumCPU())
	fmt.Fprintf(&page, "| run | holds | states | transitions | depth | finds |\n|---|---|---|---|---|---|\n")
	states, transitions := 0, 0
	for i, r := range runs {
		found := "nothing"
		if plain[i].broke != "" {
			ok = false
			found = fmt.Sprintf("**%s**, at step %d", plain[i].broke, plain[i].step)
			fmt.Printf("%s fails: %s, at step %d\n  %s\n", r.name, plain[i].broke, plain[i].step, strings.Join(plain[i].story, "\n  "))
		}
		states, transitions = states+plain[i].states, transitions+plain[i].transitions
		fmt.Fprintf(&page, "| %s | `%s` | %d | %d | %d | %s |\n", r.name, strings.Join(r.with, " "), plain[i].states, plain[i].transitions,
			plain[i].depth, found)
	}
	fmt.Fprintf(&page, "| all | | %d | %d | | |\n\n", states, transitions)
	fmt.Fprintf(&page, "| mutant | what is wrong | breaks | at step |\n|---|---|---|---|\n")
	for i, m := range mutants {
		broke, step := wrong[i].broke, fmt.Sprint(wrong[i].step)
		if broke == "" {
			ok = false
			broke, step = "**nothing**", "–"
			fmt.Printf("the mutant %s does not fail\n", m.name)
		}
		fmt.Fprintf(&page, "| `%s` | %s | %s | %s |\n", m.name, m.what, broke, step)
		if stories {
			fmt.Printf("%s: %s\n  %s\n", m.name, m.what, strings.Join(wrong[i].story, "\n  "))
		}
	}
	fmt.Print(page.String())
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

func version(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, "spin", "-V").Output()
	if err != nil {
		return "spin of an unknown version"
	}
	return strings.TrimSpace(string(out))
}
