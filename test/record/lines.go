package record

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Place is a row's claim that a line of a file holds a text.
type Place struct {
	File string
	Line int
	Text string
}

// place is how a row says so: `file:line` in one cell, `text` in the next.
var place = regexp.MustCompile("\\| `([\\w./-]+\\.(?:lua|go)):(\\d+)` \\| `(.+?)` \\|")

// Places lists the rows of a page that point at a line, and where in truth their
// texts are: 0 where there is none, and -1 where there are several.
func Places(page string) (said, is []Place, err error) {
	text, err := os.ReadFile(page)
	if err != nil {
		return nil, nil, fmt.Errorf("read the record: %w", err)
	}
	root := filepath.Dir(filepath.Dir(page))
	for _, m := range place.FindAllStringSubmatch(string(text), -1) {
		p := Place{File: m[1], Text: strings.ReplaceAll(m[3], `\|`, "|")}
		_, _ = fmt.Sscan(m[2], &p.Line)
		said = append(said, p)
		file, err := os.ReadFile(filepath.Join(root, p.File))
		if err != nil {
			return nil, nil, fmt.Errorf("read what the record points at: %w", err)
		}
		p.Line = lineOf(string(file), p.Text)
		is = append(is, p)
	}
	return said, is, nil
}

func lineOf(file, text string) int {
	found := 0
	for i, line := range strings.Split(file, "\n") {
		if strings.Contains(line, text) {
			if found != 0 {
				return -1
			}
			found = i + 1
		}
	}
	return found
}

// PutLines puts the numbers of the lines right. A text that is not there, or more
// than once, is an error.
func PutLines(page string) error {
	said, is, err := Places(page)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(page)
	if err != nil {
		return fmt.Errorf("read the record: %w", err)
	}
	next := string(text)
	for i, p := range is {
		if p.Line < 1 {
			return fmt.Errorf("%s: %q is not in %s, or more than once", page, p.Text, p.File)
		}
		escaped := strings.ReplaceAll(p.Text, "|", `\|`)
		row := func(line int) string { return fmt.Sprintf("| `%s:%d` | `%s` |", p.File, line, escaped) }
		next = strings.Replace(next, row(said[i].Line), row(p.Line), 1)
	}
	if next == string(text) {
		return nil
	}
	if err := os.WriteFile(page, []byte(next), 0o644); err != nil {
		return fmt.Errorf("write the record: %w", err)
	}
	return nil
}
