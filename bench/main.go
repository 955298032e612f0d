// Command bench compares this project with other delay queues, its peers. It measures all of them in one run on one
// machine and prints a table of results. See docs/benchmarks.md.
//
//	go run . -size=quick                             three minutes
//	go run . -size=worker                            package worker beside asynq and River, eight minutes
//	go run . -size=standard                          all peers and cases, an hour and a half
//	go run . -size=nightly                           the same, but each case measures for longer
//	go run . -size=quick -peers=all -cases=late-10   only one case, for all peers
//	go run . -size=standard -render                  write the pages again from the last result
//	go run . pairs -old PATH -new PATH               compare two built programs of this project, seven minutes
//	go run . -age                                    print the age of the published result
//
// By default the sizes worker, standard and nightly also write the results to pages in docs. For that the working tree must
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
	"slices"
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

// docs is the directory of the pages.
const docs = "../docs"

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
	if len(args) > 0 && args[0] == "pairs" {
		return pairs(ctx, args[1:], stdout, stderr)
	}

	if len(args) == 2 && slices.Contains(harness.Processes, args[0]) {
		return harness.Process(ctx, args[0], []byte(args[1]), entry, stdin, stdout)
	}

	return measure(ctx, args, stdout, stderr)
}

func measure(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	sizeName := flags.String("size", "quick", "tiny, quick, worker, standard or nightly")
	peers := flags.String("peers", "", "comma-separated names, or all; the size's if empty")
	cases := flags.String("cases", "", "comma-separated names; the size's if empty")
	out := flags.String("out", "", "result file; docs/benchmarks/<size>.json if empty and the size is published")
	render := flags.Bool("render", false, "measure nothing, write the pages from the result file")
	keep := flags.Bool("no-docs", false, "do not write benchmarks.md and its plots, as with the sizes tiny and quick")
	list := flags.Bool("list", false, "list peers and cases")
	age := flags.Bool("age", false, "measure nothing, print the age of the result that docs/benchmarks.md shows")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unknown argument %q", flags.Arg(0))
	}

	if *age {
		res, err := load(filepath.Join(docs, "benchmarks", "standard.json"))
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

	if *list {
		return printList(stdout, size)
	}

	publish := (size.Published() || size.Name == harness.Worker) && !*keep
	file := *out
	if file == "" && (publish || *render) {
		file = filepath.Join(docs, "benchmarks", size.Name+".json")
	}

	var res *harness.Result
	if *render {
		res, err = load(file)
	} else { // an interrupted run returns its cells so far and the error
		res, err = harness.Run(ctx, harness.Options{Size: size, Entries: adapter.All(), Peers: split(*peers), Cases: split(*cases),
			Publish: publish, Log: stderr, Save: func(r *harness.Result) error { return save(file, r) }})
	}

	if err != nil && (res == nil || len(res.Cells) == 0) {
		return err
	}

	text, write := report.Text, func() error { return errors.Join(report.Write(docs, res), report.Readme("../README.md", res)) }
	if size.Name == harness.Worker {
		text, write = report.WorkerText, func() error { return report.WriteWorker(filepath.Join(docs, "worker.md"), res) }
	}

	fmt.Fprint(stdout, text(res))
	if err != nil {
		return fmt.Errorf("cut off, no page is written: %w", err)
	}
	if !publish {
		return nil
	}

	return write()
}

// pairs compares two built programs of this project.
func pairs(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("bench pairs", flag.ContinueOnError)
	flags.SetOutput(stderr)
	oldPath := flags.String("old", "", "the earlier program")
	newPath := flags.String("new", "", "the later program")
	n := flags.Int("n", 5, "pairs of each case")
	cases := flags.String("cases", "", "comma-separated names; all if empty")
	raw := flags.String("raw", "pairs.json", "file for all values of all pairs")
	short := flags.Bool("short", false, "the amounts of size tiny: try each case")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *oldPath == "" || *newPath == "" || flags.NArg() > 0 || *n < 1 {
		return errors.New("usage: bench pairs -old PATH -new PATH [-n 5] [-raw pairs.json] [-cases NAMES] [-short]")
	}

	size := harness.Sizes()[harness.Pairs]
	for _, c := range split(*cases) {
		if !slices.Contains(size.Cases, c) {
			return fmt.Errorf("-cases %q: want %s", c, strings.Join(size.Cases, ", "))
		}
	}

	if *cases != "" {
		size.Cases = split(*cases)
	}

	if *short {
		size = size.Short()
	}

	res, err := harness.ComparePairs(ctx, size, *oldPath, *newPath, *n, stderr, func(r *harness.Comparison) error { return save(*raw, r) })
	if res != nil {
		fmt.Fprint(stdout, report.PairsText(res))
	}

	return err
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
func save(file string, res any) error {
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
