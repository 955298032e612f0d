// Command bench compares this project with other delay queues, its peers. It measures all of them in one run on one
// machine and prints a table of results. See docs/benchmarks.md.
//
//	go run . -size=quick                             three minutes
//	go run . -size=standard                          all peers and cases, an hour and a half
//	go run . -size=nightly                           the same, but each case measures for longer
//	go run . -size=quick -peers=all -cases=late-10   only one case, for all peers
//	go run . -size=standard -render                  write the pages again from the last result
//	go run . -age                                    print the age of the published result
//
// By default the sizes standard and nightly also write the results to pages in docs. For that the working tree must
// have no uncommitted changes.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"notifier/bench/adapter"
	"notifier/bench/harness"
	"notifier/bench/peer"
	"notifier/bench/report"
)

// gcPercent is the service's setting, which all peers get here.
const gcPercent = 400

func main() {
	debug.SetGCPercent(gcPercent)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	if len(args) == 2 {
		switch args[0] {
		case "cell":
			return cell(ctx, args[1], stdout)
		case "work":
			return work(ctx, args[1], stdin, stdout)
		case "bare":
			return bare(ctx, args[1], stdout)
		case "call":
			return call(ctx, args[1], stdin, stdout)
		}
	}
	return measure(ctx, args, stdout, stderr)
}

func measure(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	sizeName := flags.String("size", "quick", "tiny, quick, standard or nightly")
	peers := flags.String("peers", "", "comma-separated names, or all; the size's if empty")
	cases := flags.String("cases", "", "comma-separated names; the size's if empty")
	repeats := flags.Int("repeats", 0, "of each cell; the size's if 0")
	docs := flags.String("docs", "../docs", "directory of benchmarks.md and benchmarks/")
	out := flags.String("out", "", "result file; docs/benchmarks/<size>.json if empty and the size is published")
	render := flags.Bool("render", false, "measure nothing, write the pages from the result file")
	keep := flags.Bool("no-docs", false, "do not write benchmarks.md and its plots, as with the sizes tiny and quick")
	add := flags.Bool("append", false, "add to the result file, replacing cells of the same peers and cases, instead of a new file")
	readme := flags.String("readme", "../README.md", "page whose part between the marks bench:patterns is written, if it has them")
	list := flags.Bool("list", false, "list peers and cases")
	age := flags.Bool("age", false, "measure nothing, print the age of the result that docs/benchmarks.md shows")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unknown argument %q", flags.Arg(0))
	}

	if *age {
		res, err := load(filepath.Join(*docs, "benchmarks", "standard.json"))
		if err != nil {
			return err
		}

		fmt.Fprintln(stdout, harness.Age(ctx, res, time.Now()))
		return nil
	}

	size, err := harness.SizeNamed(*sizeName)
	if err != nil {
		return err
	}

	if *repeats > 0 {
		size.Repeats, size.Once, size.Often = *repeats, nil, nil
	}

	if *list {
		return printList(stdout, size)
	}

	publish := size.Published() && !*keep
	file := *out
	if file == "" && (publish || *render || *add) {
		file = filepath.Join(*docs, "benchmarks", size.Name+".json")
	}

	res, err := result(ctx, file, *render, *add, harness.Options{Size: size, Entries: adapter.All(), Peers: split(*peers),
		Cases: split(*cases), Publish: publish, Log: stderr, Save: func(r *harness.Result) error { return save(file, r) }})
	if err != nil && (res == nil || len(res.Cells) == 0) {
		return err
	}

	fmt.Fprint(stdout, report.Text(res))
	if err != nil {
		return fmt.Errorf("cut off, no page is written: %w", err)
	}
	if !publish {
		return nil
	}
	if err := report.Write(*docs, res); err != nil {
		return err
	}

	return report.Readme(*readme, res)
}

// result loads the result file, or measures. An interrupted run returns its cells so far and the
// error.
func result(ctx context.Context, file string, render, add bool, o harness.Options) (*harness.Result, error) {
	if render {
		return load(file)
	}

	if add {
		base, err := load(file)
		if err != nil {
			return nil, err
		}

		o.Base = base
	}

	return harness.Run(ctx, o)
}

func split(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ' ' })
}

func printList(w io.Writer, size harness.Size) error {
	for _, e := range adapter.All() {
		note := e.Info.Settings
		if m := harness.Missing(e.Info); m != "" {
			note = "NOT HERE: " + m
		}

		if _, err := fmt.Fprintf(w, "peer %-20s %s\n", e.Info.Name, note); err != nil {
			return err
		}
	}

	for _, c := range harness.Cases(size) {
		if _, err := fmt.Fprintf(w, "case %-20s %s\n", c.Name, c.What); err != nil {
			return err
		}
	}

	return nil
}

// save writes the result; an empty name writes none.
func save(file string, res *harness.Result) error {
	if file == "" {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return fmt.Errorf("make the directory of the result file: %w", err)
	}

	b, err := json.MarshalIndent(res, "", " ")
	if err != nil {
		return fmt.Errorf("write the result: %w", err)
	}
	if err := os.WriteFile(file, append(b, '\n'), 0o644); err != nil {
		return fmt.Errorf("write the result: %w", err)
	}

	return nil
}

func load(file string) (*harness.Result, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the result: %w", err)
	}

	res := &harness.Result{}
	if err := json.Unmarshal(b, res); err != nil {
		return nil, fmt.Errorf("read the result %s: %w", file, err)
	}

	return res, nil
}

func entry(name string) (peer.Entry, error) {
	for _, e := range adapter.All() {
		if e.Info.Name == name {
			return e, nil
		}
	}
	return peer.Entry{}, fmt.Errorf("there is no peer %q", name)
}

// cell is the body of one cell's process.
func cell(ctx context.Context, arg string, stdout io.Writer) error {
	var spec harness.Spec
	if err := json.Unmarshal([]byte(arg), &spec); err != nil {
		return fmt.Errorf("read the cell's task: %w", err)
	}

	e, err := entry(spec.Peer)
	if err != nil {
		return err
	}

	v, err := harness.Measure(ctx, spec, e)
	if err != nil {
		return err
	}

	return json.NewEncoder(stdout).Encode(v)
}

// work is the body of a worker's process in the crash case.
func work(ctx context.Context, arg string, stdin io.Reader, stdout io.Writer) error {
	var spec harness.WorkSpec
	if err := json.Unmarshal([]byte(arg), &spec); err != nil {
		return fmt.Errorf("read the worker's task: %w", err)
	}

	e, err := entry(spec.Peer)
	if err != nil {
		return err
	}

	return harness.Work(ctx, spec, e, stdin, stdout)
}

// call is the body of a worker's process in the callback cases.
func call(ctx context.Context, arg string, stdin io.Reader, stdout io.Writer) error {
	var spec harness.CallSpec
	if err := json.Unmarshal([]byte(arg), &spec); err != nil {
		return fmt.Errorf("read the worker's task: %w", err)
	}

	e, err := entry(spec.Peer)
	if err != nil {
		return err
	}

	return harness.Call(ctx, spec, e, stdin, stdout)
}

// bare is the body of the bare client loop's process.
func bare(ctx context.Context, arg string, stdout io.Writer) error {
	var spec harness.BareSpec
	if err := json.Unmarshal([]byte(arg), &spec); err != nil {
		return fmt.Errorf("read the loop's task: %w", err)
	}

	rate, err := harness.Bare(ctx, spec)
	if err != nil {
		return err
	}

	return json.NewEncoder(stdout).Encode(rate)
}
