package record

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestLinesThatHaveMovedAreFoundAndPutRight(t *testing.T) {
	dir := t.TempDir()
	page := filepath.Join(dir, "docs", "page.md")
	write := func(path, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(dir, "a.lua"), "-- one\n-- two\ncall('x') or y | z\n")
	write(page, "| step | `x` | `a.lua:1` | `call('x') or y \\| z` |\n")
	said, is, err := Places(page)
	if err != nil || len(said) != 1 || said[0].Line != 1 || is[0].Line != 3 {
		t.Fatalf("%+v, %+v, %v", said, is, err)
	}
	if err := PutLines(page); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(page); err != nil || !strings.Contains(string(got), "`a.lua:3`") {
		t.Errorf("%s, %v", got, err)
	}
	write(filepath.Join(dir, "a.lua"), "call('x') or y | z\ncall('x') or y | z\n")
	if err := PutLines(page); err == nil {
		t.Error("a line that is there twice was taken")
	}
}
