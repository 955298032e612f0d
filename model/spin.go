package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

const source = "notifier.pml"

// limit bounds one search: longer than the whole takes, even on a machine under load.
const limit = 10 * time.Minute

// budget bounds the processor time of all that runs, spin and the compiler included: 4
// minutes of two processors. What else the machine does hardly adds to it.
const budget = 2 * 4 * time.Minute

// result is what one search came to.
type result struct {
	states, transitions, depth int
	step                       int    // at which it failed
	broke                      string // the promise; empty = none
	story                      []string
}

// search compiles the model with the given macros and searches its states. For a mutant it searches breadth-first, so
// that it finds a short failure. It uses up to 0.7 GB of memory.
func search(ctx context.Context, with []string, ends, mutant bool) (result, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	dir, err := os.MkdirTemp("", "model")
	if err != nil {
		return result{}, fmt.Errorf("make a directory: %w", err)
	}

	defer func() { _ = os.RemoveAll(dir) }()
	text, err := os.ReadFile(filepath.Join(folder, source))
	if err != nil {
		return result{}, fmt.Errorf("read the model: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, source), text, 0o600); err != nil {
		return result{}, fmt.Errorf("copy the model: %w", err)
	}

	macros := make([]string, 0, len(with)+1)
	for _, w := range with {
		macros = append(macros, "-D"+w)
	}

	optimise := "-O1" // more takes the compiler longer than it saves
	if mutant {       // its search ends soon
		optimise = "-O0"
	}

	cc := []string{"-w", optimise, "-DVECTORSZ=1024", "-o", "pan", "pan.c"}
	args := []string{"-m1000000"}
	switch {
	case ends:
		macros = append(macros, "-DENDS")
		cc = append(cc, "-DNFAIR=3")
		args = append(args, "-a", "-f")
	case mutant:
		cc = append(cc, "-DSAFETY", "-DBFS")
	default:
		cc = append(cc, "-DSAFETY")
	}

	if _, err := command(ctx, dir, "spin", append(append([]string{}, macros...), "-a", source)...); err != nil {
		return result{}, err
	}
	if _, err := command(ctx, dir, "gcc", cc...); err != nil {
		return result{}, err
	}

	out, err := command(ctx, dir, "./pan", args...)
	if err != nil {
		return result{}, err
	}

	r, err := read(out)
	if err != nil || r.broke == "" {
		return r, err
	}

	told, err := command(ctx, dir, "spin", append(append([]string{}, macros...), "-k", source+".trail", source)...)
	r.story = story(told)
	return r, err
}

// used is the processor time that all programs have taken so far.
var used atomic.Int64

// command runs a program and returns its output. It ignores the exit status, because spin and
// pan also exit with another status than 0 after a finding.
func command(ctx context.Context, dir, name string, args ...string) (string, error) {
	c := exec.CommandContext(ctx, name, args...)
	c.Dir = dir
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	err := c.Run()
	if c.ProcessState != nil {
		used.Add(int64(c.ProcessState.UserTime() + c.ProcessState.SystemTime()))
	}

	var status *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return "", fmt.Errorf("%s: %w", name, ctx.Err())
	case errors.Is(err, exec.ErrNotFound):
		return "", fmt.Errorf("%s is not installed: run scripts/model-deps.sh", name)
	case errors.As(err, &status) && name == "gcc", err != nil && !errors.As(err, &status):
		return "", fmt.Errorf("%s: %w\n%s", name, err, out.String())
	}

	return out.String(), nil
}

var (
	states      = regexp.MustCompile(`(?m)^\s*(\d+) states, stored`)
	transitions = regexp.MustCompile(`(?m)^\s*(\d+) transitions`)
	depth       = regexp.MustCompile(`depth reached (\d+), errors: (\d+)`)
	broken      = regexp.MustCompile(`(?m)^pan:\d+: assertion violated\s+!\((\w+)\) \(at depth (\d+)\)`)
	cycle       = regexp.MustCompile(`(?m)^pan:\d+: acceptance cycle \(at depth (\d+)\)`)
	stuck       = regexp.MustCompile(`(?m)^pan:\d+: (.*) \(at depth (\d+)\)`)
)

// read reads what pan printed.
func read(out string) (result, error) {
	var r result
	d := depth.FindStringSubmatch(out)
	if d == nil || !states.MatchString(out) || !transitions.MatchString(out) {
		return r, fmt.Errorf("the search did not end:\n%s", out)
	}

	r.depth = number(d[1])
	r.states = number(states.FindStringSubmatch(out)[1])
	r.transitions = number(transitions.FindStringSubmatch(out)[1])
	if d[2] == "0" {
		if strings.Contains(out, "max search depth too small") || strings.Contains(out, "out of memory") {
			return r, fmt.Errorf("the search is not exhaustive:\n%s", out)
		}
		return r, nil
	}

	if m := broken.FindStringSubmatch(out); m != nil {
		r.broke, r.step = promises[m[1]], number(m[2])
	} else if m := cycle.FindStringSubmatch(out); m != nil {
		r.broke, r.step = "every notice ends", number(m[1])
	} else if m := stuck.FindStringSubmatch(out); m != nil {
		r.broke, r.step = m[1], number(m[2])
	}

	if r.broke == "" {
		return r, fmt.Errorf("an error that says nothing:\n%s", out)
	}

	return r, nil
}

// promises maps the model's variables to the promises that they report as broken.
var promises = map[string]string{
	"early":   "never early",
	"lost":    "never lost",
	"stolen":  "no settle by a lost claim",
	"doubled": "doubles are bounded",
	"late":    "a touch at the due time expires the timer",
}

// story returns the model's messages from the replay of a failure.
func story(out string) []string {
	var list []string
	for line := range strings.Lines(out) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "spin:"), strings.HasPrefix(line, "#processes"):
			return list
		case strings.HasPrefix(line, "<<<<<START OF CYCLE"):
			list = append(list, "then repeated without end:")
		case line != "" && !strings.HasPrefix(line, "Never claim") && !strings.HasPrefix(line, "ltl ") &&
			!strings.HasPrefix(line, "starting claim"):
			list = append(list, line)
		}
	}

	return list
}

func number(s string) int {
	n, _ := strconv.Atoi(s)
	return n
}
