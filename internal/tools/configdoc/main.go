// Command configdoc writes docs/configuration.md, from the table of variables
// that the service reads.
package main

import (
	"fmt"
	"os"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: configdoc <file>")
		os.Exit(2)
	}
	if err := os.WriteFile(os.Args[1], []byte(page()), 0o644); err != nil {
		fmt.Fprintln(os.Stderr, "configdoc:", err)
		os.Exit(1)
	}
}
