// Command tools makes files of this repository and prints figures about it. Each of its commands has one task:
//
//	go run ./internal/tools acl FILE            writes deploy/users.acl
//	go run ./internal/tools apidoc FILE         writes openapi.json
//	go run ./internal/tools configdoc FILE      writes docs/configuration.md
//	go run ./internal/tools binsize PROGRAM     prints the size of each module in a Linux program
//	go run ./internal/tools codestats DIRECTORY prints the size and density of the Go code in a directory
//	go run ./internal/tools docfacts REVISION   lists facts that the documentation had in an earlier Git revision
//
// The first three are called by go generate.
package main

import (
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"notifier/internal/api"
)

// command is one task. It has one argument.
type command struct {
	argument string
	run      func(argument string, w io.Writer) error
}

var commands = map[string]command{
	"acl":       {"FILE", writer(users)},
	"apidoc":    {"FILE", writer(func() string { return string(api.Document(api.Unversioned)) })},
	"configdoc": {"FILE", writer(configuration)},
	"binsize":   {"PROGRAM", binsize},
	"codestats": {"DIRECTORY", codestats},
	"docfacts":  {"REVISION", docfacts},
}

// writer returns a command that writes a text to a file.
func writer(text func() string) func(string, io.Writer) error {
	return func(path string, _ io.Writer) error { return os.WriteFile(path, []byte(text()), 0o644) }
}

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run returns the exit code.
func run(args []string, stdout, stderr io.Writer) int {
	if len(args) == 0 || commands[args[0]].run == nil {
		fmt.Fprintf(stderr, "usage: tools COMMAND ARGUMENT, with one of the commands %s\n",
			strings.Join(slices.Sorted(maps.Keys(commands)), ", "))
		return 2
	}

	name, c := args[0], commands[args[0]]
	if len(args) != 2 {
		fmt.Fprintf(stderr, "usage: tools %s %s\n", name, c.argument)
		return 2
	}

	if err := c.run(args[1], stdout); err != nil {
		fmt.Fprintf(stderr, "%s: %v\n", name, err)
		return 1
	}

	return 0
}
