package report

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"notifier/bench/harness"
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

// Readme writes the short table of patterns between the marks bench:patterns of a page.
func Readme(file string, res *harness.Result) error {
	return between(file, "bench:patterns", shortTable(res).markdown())
}

// between writes text between the marks of a page. A page without them, or none, is left alone.
func between(file, mark, text string) error {
	b, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read a page: %w", err)
	}

	begin, end := "<!-- "+mark+" -->", "<!-- /"+mark+" -->"
	before, rest, ok := strings.Cut(string(b), begin)
	_, after, ended := strings.Cut(rest, end)
	if !ok || !ended {
		return nil
	}
	if err := os.WriteFile(file, []byte(before+begin+"\n"+text+end+after), 0o644); err != nil {
		return fmt.Errorf("write a page: %w", err)
	}

	return nil
}
