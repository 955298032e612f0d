package report

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"notifier/bench/harness"
)

// The marks between which a page shows the table of patterns.
const (
	markBegin = "<!-- bench:patterns -->"
	markEnd   = "<!-- /bench:patterns -->"
)

// Readme writes the table of patterns between the marks of a page. A page
// without them, or none, is left alone.
func Readme(file string, res *harness.Result) error {
	b, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the page of patterns: %w", err)
	}
	before, rest, ok := strings.Cut(string(b), markBegin)
	_, after, ended := strings.Cut(rest, markEnd)
	if !ok || !ended {
		return nil
	}
	page := before + markBegin + "\n" + patternTable(res).markdown() + markEnd + after
	if err := os.WriteFile(file, []byte(page), 0o644); err != nil {
		return fmt.Errorf("write the page of patterns: %w", err)
	}
	return nil
}
