// Command reference writes the page docs/api.md from the OpenAPI document.
package main

import (
	"fmt"
	"os"

	"notifier/internal/api"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "reference:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("want the path of the page to write")
	}
	page, err := api.Reference()
	if err != nil {
		return err
	}
	return os.WriteFile(args[0], page, 0o644)
}
