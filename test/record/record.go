package record

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Page describes the long runs, and holds the short records. The path is from the root.
const Page = "docs/reliability.md"

// Save writes the record of a long run to docs/records/<name>.txt. Root is the path of the
// repository's root.
func Save(root, name, text string) error {
	path := filepath.Join(root, "docs", "records", name+".txt")
	if err := os.WriteFile(path, []byte(strings.TrimRight(text, "\n")+"\n"), 0o644); err != nil {
		return fmt.Errorf("write the record: %w", err)
	}

	return nil
}

// Write replaces a section of the page at a path. Text is Markdown.
func Write(path, name, text string) error {
	page, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read the record: %w", err)
	}

	next, err := replace(string(page), name, text)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}

	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("read the record: %w", err)
	}
	if err := os.WriteFile(path, []byte(next), info.Mode().Perm()); err != nil {
		return fmt.Errorf("write the record: %w", err)
	}

	return nil
}

func replace(page, name, text string) (string, error) {
	begin, end := marks(name)
	head, rest, ok := strings.Cut(page, begin)
	_, tail, closed := strings.Cut(rest, end)
	if !ok || !closed {
		return "", fmt.Errorf("no section between %q and %q", strings.TrimSpace(begin), strings.TrimSpace(end))
	}

	return head + begin + strings.TrimRight(text, "\n") + "\n" + end + tail, nil
}

// marks are the lines around a section.
func marks(name string) (begin, end string) {
	return "<!-- record: " + name + " -->\n", "<!-- end: " + name + " -->\n"
}
