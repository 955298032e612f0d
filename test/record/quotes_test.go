package record

import (
	"os"
	"path/filepath"
	"testing"
)

func TestQuotesAreCounted(t *testing.T) {
	dir := t.TempDir()
	page := filepath.Join(dir, "docs", "page.md")
	if err := os.MkdirAll(filepath.Dir(page), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(page, []byte("| step | `x` | `a.lua` | `call('x') or y \\| z` |\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const line = "call('x') or y | z\n"
	for n, file := range []string{"-- nothing\n", "-- one\n" + line, line + line} {
		if err := os.WriteFile(filepath.Join(dir, "a.lua"), []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		if list, err := Quotes(page); err != nil || len(list) != 1 || list[0].Found != n {
			t.Errorf("%+v, %v; want it found %d times", list, err, n)
		}
	}
}
