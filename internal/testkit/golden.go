package testkit

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var golden = flag.Bool("golden", false, "write the files of testdata that tests compare")

// Golden compares a text with a file of testdata, and reports the first line that differs. With the flag -golden it writes the
// file; read the difference before you commit it.
func Golden(t testing.TB, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *golden {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}

	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}

	a, want := strings.Split(got, "\n"), strings.Split(string(b), "\n")
	for i := range max(len(a), len(want)) {
		switch {
		case i >= len(a) || i >= len(want):
			t.Fatalf("%d lines, want the %d of %s", len(a), len(want), file)
		case a[i] != want[i]:
			t.Fatalf("%s:%d is\n%s\nwant\n%s", file, i+1, a[i], want[i])
		}
	}
}
