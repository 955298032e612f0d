// Command apidoc writes the OpenAPI document, and the page docs/api.md from it.
package main

import (
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
	if len(args) != 2 {
		return fmt.Errorf("want the paths of the page and of the document to write")
	}
	text, err := page()
	if err != nil {
		return err
	}
	if err := os.WriteFile(args[0], text, 0o644); err != nil {
		return err
	}
	return os.WriteFile(args[1], api.Document(api.Unversioned), 0o644)
}
