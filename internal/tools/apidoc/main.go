// Command apidoc writes the OpenAPI document.
package main

import (
	"errors"
	"fmt"
	"os"

	"notifier/internal/api"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "apidoc:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 1 {
		return errors.New("want the path of the document to write")
	}
	return os.WriteFile(args[0], api.Document(api.Unversioned), 0o644)
}
