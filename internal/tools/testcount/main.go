// Command testcount reads what `go test -json` writes, prints failures in full
// and everything else as one line a package, and counts at the end.
//
//	go test -json ./... | go run ./internal/tools/testcount
//
// Its exit code is 1 if a test or a package failed, or if there was nothing to
// read: a pipe hides the exit code of what stands before it.
//
// With -rerun n and a command, up to n tests that failed run once more, without
// the others, by that command with -run and the package added:
//
//	go test -json ./... | go run ./internal/tools/testcount -rerun 3 go test -race
//
// If all pass then, the exit code is 0 and the last lines name them: such a test
// depends on how busy the machine is, which is a defect of its own. A data race,
// a panic, a time-out or a package that does not build never gets another run.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

func main() {
	most := flag.Int("rerun", 0, "run up to `n` failed tests once more, by the command that follows")
	flag.Parse()
	again := func(string, []string) bool { return false }
	if *most > 0 && flag.NArg() > 0 {
		again = func(pkg string, tests []string) bool { return rerun(flag.Args(), pkg, tests) }
	}
	os.Exit(run(os.Stdin, os.Stdout, *most, again))
}

// rerun reports whether tests pass when they run without the others.
func rerun(command []string, pkg string, tests []string) bool {
	args := append(slices.Clone(command[1:]), "-count=1", "-run", "^("+strings.Join(tests, "|")+")$", pkg)
	fmt.Printf("once more: %s %s\n", command[0], strings.Join(args, " "))
	c := exec.Command(command[0], args...)
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	return c.Run() == nil
}

// event is one line of test2json.
type event struct {
	Action     string
	Package    string
	ImportPath string // of build output
	Test       string
	Output     string
	Elapsed    float64
}

// counter adds up events. Output is kept until its test is known to have
// passed.
type counter struct {
	out                     io.Writer
	kept                    map[string][]string // package and test → output
	passed, failed, skipped int
	packages, broken        int

	failures map[string][]string // package → tests, without subtests
	fatal    bool                // something failed that another run would only hide
}

// run reads in, and lets again run those tests of a package that failed.
func run(in io.Reader, out io.Writer, most int, again func(pkg string, tests []string) bool) int {
	c := &counter{out: out, kept: map[string][]string{}, failures: map[string][]string{}}
	started := time.Now()
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if json.Unmarshal(line, &e) != nil {
				// Not of test2json: what the go command says of itself.
				fmt.Fprintf(out, "%s", line)
			} else {
				c.add(&e)
			}
		}
		if err != nil {
			break
		}
	}
	fmt.Fprintf(out, "\n%d passed, %d failed, %d skipped; %d packages, %d of them failed; %s\n",
		c.passed, c.failed, c.skipped, c.packages, c.broken, time.Since(started).Round(time.Second/10))
	if c.passed == 0 {
		return 1
	}
	if c.failed == 0 && c.broken == 0 {
		return 0
	}
	return c.again(most, again)
}

// again is the exit code after the tests that failed ran once more.
func (c *counter) again(most int, again func(pkg string, tests []string) bool) int {
	var names []string
	for pkg, tests := range c.failures {
		for _, t := range tests {
			names = append(names, pkg+"."+t)
		}
	}
	if c.fatal || len(names) > most || len(c.failures) != c.broken {
		return 1
	}
	for pkg, tests := range c.failures {
		if !again(pkg, tests) {
			return 1
		}
	}
	slices.Sort(names)
	fmt.Fprintf(c.out, "%d failed beside the others and passed without them; mend what depends on the machine's load: %s\n",
		len(names), strings.Join(names, ", "))
	return 0
}

func (c *counter) add(e *event) {
	id := e.Package + " " + e.Test
	switch e.Action {
	case "build-output":
		c.kept[e.ImportPath] = append(c.kept[e.ImportPath], e.Output)
	case "build-fail":
		c.print(e.ImportPath)
	case "output":
		c.kept[id] = append(c.kept[id], e.Output)
	case "pass", "fail", "skip":
		if e.Test == "" {
			c.packageEnd(e, id)
		} else {
			c.testEnd(e, id)
		}
	}
}

func (c *counter) testEnd(e *event, id string) {
	switch e.Action {
	case "pass":
		c.passed++
	case "skip":
		c.skipped++
		c.print(id)
	case "fail":
		c.failed++
		c.print(id)
		if !strings.Contains(e.Test, "/") {
			c.failures[e.Package] = append(c.failures[e.Package], e.Test)
		}
	}
	delete(c.kept, id)
}

func (c *counter) packageEnd(e *event, id string) {
	if e.Action == "skip" { // no test files
		delete(c.kept, id)
		return
	}
	c.packages++
	if e.Action == "fail" {
		c.broken++
		// A panic or a race is printed under the tests that had not ended.
		for open := range c.kept {
			if strings.HasPrefix(open, e.Package+" ") && open != id {
				c.print(open)
				delete(c.kept, open)
			}
		}
		c.print(id)
	}
	delete(c.kept, id)
	fmt.Fprintf(c.out, "%-4s %s %.1fs\n", map[string]string{"pass": "ok", "fail": "FAIL"}[e.Action], e.Package, e.Elapsed)
}

func (c *counter) print(id string) {
	for _, s := range c.kept[id] {
		fmt.Fprint(c.out, s)
		if strings.HasPrefix(s, "WARNING: DATA RACE") || strings.HasPrefix(s, "panic: ") || strings.HasPrefix(s, "fatal error: ") {
			c.fatal = true
		}
	}
}
