package record

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Quote is a row's claim that a file holds a text exactly once.
type Quote struct {
	File, Text string
	// Found is how often the file holds it.
	Found int
}

// quote is how a row says so: `file` in one cell, `text` in the next.
var quote = regexp.MustCompile("\\| `([\\w./-]+\\.(?:lua|go))` \\| `(.+?)` \\|")

// Quotes lists the rows of a page that quote a file.
func Quotes(page string) (list []Quote, err error) {
	text, err := os.ReadFile(page)
	if err != nil {
		return nil, fmt.Errorf("read the record: %w", err)
	}

	root := filepath.Dir(filepath.Dir(page))
	for _, m := range quote.FindAllStringSubmatch(string(text), -1) {
		q := Quote{File: m[1], Text: strings.ReplaceAll(m[2], `\|`, "|")}
		file, err := os.ReadFile(filepath.Join(root, q.File))
		if err != nil {
			return nil, fmt.Errorf("read a file that the record quotes: %w", err)
		}

		q.Found = strings.Count(string(file), q.Text)
		list = append(list, q)
	}

	return list, nil
}
