package record

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestPutRowReplacesRowOfSameNumber(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(page, []byte("before\n<!-- record: a -->\n<!-- end: a -->\nafter\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	header := []string{"no", "what"}
	for _, row := range [][]string{{"10", "ten"}, {"2.1", "old"}, {"2", "two | three"}, {"2.1", "new\nline"}} {
		if err := PutRow(page, "a", header, row); err != nil {
			t.Fatal(err)
		}
	}
	const want = "| no | what |\n|---|---|\n| 2 | two \\| three |\n| 2.1 | new line |\n| 10 | ten |\n"
	if got, err := Section(page, "a"); err != nil || got != want {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
	if text, err := os.ReadFile(page); err != nil || !strings.HasPrefix(string(text), "before\n") || !strings.HasSuffix(string(text),
		"after\n") {
		t.Errorf("%q, %v", text, err)
	}
	if err := PutRow(page, "b", header, []string{"1", "x"}); err == nil {
		t.Error("a row was put where there is no section")
	}
}
