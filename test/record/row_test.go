package record

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
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

// section makes a page with an empty section, and returns its path.
func section(t *testing.T, name string) string {
	t.Helper()
	page := filepath.Join(t.TempDir(), "page.md")
	begin, end := marks(name)
	if err := os.WriteFile(page, []byte(begin+end), 0o600); err != nil {
		t.Fatal(err)
	}
	return page
}

func TestFaultPutsItsCountsIntoTheTable(t *testing.T) {
	page := section(t, "distributed")
	t.Setenv(envPage, page)
	t.Setenv(envSeed, "7")
	early, late := 3, 1500*time.Millisecond
	for _, f := range []Fault{
		{No: "1", Fault: "kill", Settings: "one", Aim: "none lost", Found: "was not tried", Server: "Redis 8"},
		{No: "2", Fault: "kill", Counts: &Counts{Notices: 100, Lost: 1, Doubled: 2}},
		{No: "3", Fault: "kill", Counts: &Counts{Notices: 100, Early: &early, Failed: &early, Late: &late}},
	} {
		f.Put(t)
	}
	const test = " | `TestFaultPutsItsCountsIntoTheTable` | 7 | "
	rows := rowsOf(t, page, "distributed")
	for i, want := range []string{
		"| 1 | kill | one | – | – | – | – | – | – | none lost | was not tried" + test + "Redis 8, notifier " + revision,
		"| 2 | kill |  | 100 | 1 | 2 | – | – | – |  | " + test,
		"| 3 | kill |  | 100 | 0 | 0 | 3 | 1500 ms | 3 |  | " + test,
	} {
		if !strings.HasPrefix(rows[i], want) {
			t.Errorf("%s\nwant it to begin with\n%s", rows[i], want)
		}
	}
}

func TestWayPutsItsTestsIntoTheTable(t *testing.T) {
	page := section(t, "ways")
	t.Setenv(envWays, page)
	for _, w := range []Way{
		{No: 1, Way: "plain", Passed: 12, Server: "Redis 8"},
		{No: 2, Way: "tls", Settings: "A=1, B=2", Passed: 9, Failed: []string{"TestA", "TestB"}, Again: []string{"TestC"}, Elsewhere: 1},
	} {
		if err := w.Put(); err != nil {
			t.Fatal(err)
		}
	}
	rows := rowsOf(t, page, "ways")
	for i, want := range []string{
		"| 1 | plain | none | 12 | 0 | 0 | 0 | Redis 8, notifier " + revision + " | ",
		"| 2 | tls | `A=1`, `B=2` | 9 | 1: TestC | **2**: TestA, TestB | 1 | ",
	} {
		if !strings.HasPrefix(rows[i], want) {
			t.Errorf("%s\nwant it to begin with\n%s", rows[i], want)
		}
	}

	t.Setenv(envWays, "")
	if err := (Way{No: 3, Way: "cluster"}).Put(); err != nil {
		t.Error(err)
	}
	if got := rowsOf(t, page, "ways"); len(got) != len(rows) {
		t.Errorf("%q: a way went to a page that is not named", got)
	}
}

// rowsOf are the rows of a table, without its header.
func rowsOf(t *testing.T, page, name string) []string {
	t.Helper()
	text, err := Section(page, name)
	if err != nil {
		t.Fatal(err)
	}
	return slices.Collect(strings.Lines(text))[2:]
}

func TestCellsForReaders(t *testing.T) {
	for d, want := range map[time.Duration]string{1234 * time.Microsecond: "1.2 ms", 10 * time.Millisecond: "10 ms",
		9999 * time.Millisecond: "9999 ms", 12340 * time.Millisecond: "12.3 s"} {
		if got := Short(d); got != want {
			t.Errorf("%s is %q, want %q", d, got, want)
		}
	}
	for ok, want := range map[bool]string{true: "5 ms", false: "**missed**: 5 ms"} {
		if got := Reached(ok, "5 ms"); got != want {
			t.Errorf("reached %t: %q, want %q", ok, got, want)
		}
	}
}

func TestSizeOfTheRun(t *testing.T) {
	for size, want := range map[string]int{"": 1, "1": 1, "nightly": 2} {
		t.Setenv(envSize, size)
		if got := Sized(1, 2); got != want {
			t.Errorf("%q: %d, want %d", size, got, want)
		}
	}
}
