// Command testcount reads what `go test -json` writes, prints failures in full
// and everything else as one line a package, and counts at the end.
//
//	go test -json ./... | go run ./internal/tools/testcount
//
// Its exit code is 1 if a test or a package failed, or if there was nothing to
// read: a pipe hides the exit code of what stands before it.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

func main() { os.Exit(run(os.Stdin, os.Stdout)) }

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
}

func run(in io.Reader, out io.Writer) int {
	c := &counter{out: out, kept: map[string][]string{}}
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
	if c.failed > 0 || c.broken > 0 || c.passed == 0 {
		return 1
	}
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
	}
}
