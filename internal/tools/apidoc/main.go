// Command apidoc writes the OpenAPI document.
package main

import (
	"fmt"
	"io"
	"os"

	"notifier/internal/api"
)

func main() { os.Exit(run(os.Args[1:], os.Stderr)) }

// run returns the exit code.
func run(args []string, stderr io.Writer) int {
	if len(args) != 1 {
		fmt.Fprintln(stderr, "usage: apidoc <file>")
		return 2
	}

	if err := os.WriteFile(args[0], api.Document(api.Unversioned), 0o644); err != nil {
		fmt.Fprintln(stderr, "apidoc:", err)
		return 1
	}

	return 0
}
