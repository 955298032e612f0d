package record

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
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

func TestSaveWritesAFile(t *testing.T) {
	root := t.TempDir()
	if err := Save(root, "days", "x"); err == nil {
		t.Error("a record was saved where there is no docs/records")
	}
	dir := filepath.Join(root, "docs", "records")
	if err := os.MkdirAll(dir, 0o750); err != nil {
		t.Fatal(err)
	}
	if err := Save(root, "days", "one\ntwo\n\n\n"); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "days.txt")); err != nil || string(got) != "one\ntwo\n" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestPagesThatAreNotThere(t *testing.T) {
	page := filepath.Join(t.TempDir(), "none.md")
	row := PutRow(page, "a", []string{"no"}, []string{"1"})
	_, quotes := Quotes(page)
	for name, err := range map[string]error{"Write": Write(page, "a", "x"), "PutRow": row, "Quotes": quotes} {
		if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "read the record: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
