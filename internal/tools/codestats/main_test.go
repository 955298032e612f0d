package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestMeasureCountsCodeTestsAndWords(t *testing.T) {
	files := map[string]string{
		"README.md": "three words\nhere\n",
		"internal/store/store.go": "package store\n\ntype Store[T any] struct{ a, b func(); c int }\n\n" +
			"func (s *Store[T]) Get() {}\nfunc (s *Store[T]) put() {}\nfunc (other) Run() {}\n\ntype other struct{}\n",
		"internal/store/store_test.go":   "package store\n",
		"internal/store/testdata/bad.go": "no Go at all",
		"client/client.go": "package client\n\ntype options struct{ hook func() }\n" + branches("ten",
			9) + branches("eleven", 10),
		"client/README":                    "not Markdown",
		".git/description.md":              "not counted",
		"internal/store/deep/deep.go":      "package deep\n",
		"internal/store/deep/deep_test.go": "package deep\n\n",
	}
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}

	s, err := measure(root)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int{"packages": len(s.packages), "code": s.code, "tests": s.tests, "blank": s.blank,
		"fields": s.funcFields, "complex": s.complex, "methods": s.storeMethods, "words": s.words}
	for name, want := range map[string]int{"packages": 3, "code": 9 + 3 + 2 + 1, "tests": 3, "blank": 4,
		"fields": 2, "complex": 1, "methods": 1, "words": 3} {
		if got[name] != want {
			t.Errorf("%s: %d, want %d", name, got[name], want)
		}
	}
}

// branches returns a function in one line with n branches.
func branches(name string, n int) string {
	return "func " + name + "(x bool) bool { return x" + strings.Repeat(" && x", n) + " }\n"
}

func TestMeasureReportsInvalidSource(t *testing.T) {
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "a.go"), []byte("package"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := measure(root); err == nil {
		t.Error("no error")
	}
}
