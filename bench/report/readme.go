package report

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"notifier/bench/harness"
)

// The marks between which a page shows the table of patterns.
const (
	markBegin = "<!-- bench:patterns -->"
	markEnd   = "<!-- /bench:patterns -->"
)

// shortTable is the pattern table with the peers and columns that the README shows.
func shortTable(res *harness.Result) table {
	shown := []string{"notifier", "rabbitmq", "expired-events", "zset-1s", "zset-lua-10ms", "sql-poll-1s"}
	all := patternTable(res)
	t := table{head: all.head[:5]}
	for _, row := range all.rows {
		for _, p := range res.Peers {
			if rowName(p) == row[0] && slices.Contains(shown, p.Name) {
				t.rows = append(t.rows, row[:5])
			}
		}
	}

	return t
}

// Readme writes the short table of patterns between the marks of a page. A page
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

	page := before + markBegin + "\n" + shortTable(res).markdown() + markEnd + after
	if err := os.WriteFile(file, []byte(page), 0o644); err != nil {
		return fmt.Errorf("write the page of patterns: %w", err)
	}

	return nil
}
