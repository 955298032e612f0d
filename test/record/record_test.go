package record

import (
	"os"
	"path/filepath"
	"testing"
)

func TestSaveReplacesOnlyItsSection(t *testing.T) {
	const before = "# Page\n<!-- record: a -->\nold\n<!-- end: a -->\nbetween\n<!-- record: b -->\n<!-- end: b -->\nafter\n"
	page := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(page, []byte(before), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, s := range [][2]string{{"b", "two\n"}, {"a", "new"}} {
		if err := Write(page, s[0], s[1]); err != nil {
			t.Fatal(err)
		}
	}
	const want = "# Page\n<!-- record: a -->\nnew\n<!-- end: a -->\nbetween\n<!-- record: b -->\ntwo\n<!-- end: b -->\nafter\n"
	if got, err := os.ReadFile(page); err != nil || string(got) != want {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
	if err := Write(page, "c", "x"); err == nil {
		t.Error("a section that is not there was written")
	}
}
